"""Convolution and the rest of a Conv4 block, made cheap to differentiate twice.

A second-order meta-gradient spends its time in derivatives of derivatives. PyTorch's own cost several times the
arithmetic: the second derivative of a convolution runs with a kernel as large as the image, and that of BatchNorm makes
dozens of passes over the map. Here

- a convolution is linear in the image and in the filter, so its second derivatives are convolutions again, of the
  same shapes as the first;
- BatchNorm, max-pooling and ReLU are one operation, whose derivatives touch the full map as seldom as they can.

Maps are fastest in the `channels_last` memory format; the values do not depend on it.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

EPSILON = 1e-5  # of nn.BatchNorm2d
_aten = torch.ops.aten


def conv2d(x: Tensor, weight: Tensor, *, stride: int = 1, padding: int = 0) -> Tensor:
    """Maps (n, i, h, w) and weight (o, i, k, k) -> (n, o, h', w'), zero-padded; differentiable twice.

    Under `torch.autocast` it computes, and so do its derivatives, in the type of that; the maps stay what they were.
    """
    if torch.is_autocast_enabled(x.device.type):
        lower = torch.get_autocast_dtype(x.device.type)
        rough: Tensor = _apply(_Conv, x.to(lower), weight.to(lower), stride, padding)
        return rough.to(x.dtype)
    out: Tensor = _apply(_Conv, x, weight, stride, padding)
    return out


def norm_pool_relu(y: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
    """BatchNorm by batch statistics, 2x2 max-pooling, ReLU: maps (n, c, h, w) -> (n, c, h // 2, w // 2).

        relu(gain * rate * (maxpool(y) - mean) + bias),    rate = (var + epsilon) ** -0.5

    with the moments of each channel over the map before pooling. Equal to BatchNorm, then pooling, for `gain` >= 0,
    which is the caller's to see to. Differentiable twice.
    """
    out: Tensor = _apply(_NormPoolRelu, y, gain, bias)
    return out


class _Conv(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, stride: int, padding: int) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.geometry = stride, padding
        return _convolution(x, weight, stride, padding)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        for_x, for_weight = _apply(_ConvAdjoint, g, x, weight, *ctx.geometry, ctx.needs_input_grad[:2])
        return for_x, for_weight, None, None


class _ConvAdjoint(Function):
    """(g, x, weight) -> the cotangents of x and weight, those that are `wanted`."""

    @staticmethod
    def forward(
        ctx: Any, g: Tensor, x: Tensor, weight: Tensor, stride: int, padding: int, wanted: tuple[bool, bool]
    ) -> tuple[Tensor | None, Tensor | None]:
        ctx.save_for_backward(g, x, weight)
        ctx.geometry = stride, padding
        ctx.set_materialize_grads(False)
        return _adjoints(g, x, weight, stride, padding, wanted)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, u_x: Tensor | None, u_weight: Tensor | None) -> tuple[Tensor | None, ...]:
        # What is paired with u is <u_x, for_x> + <u_weight, for_weight> = <g, conv(u_x, weight) + conv(x, u_weight)>.
        g, x, weight = ctx.saved_tensors
        stride, padding = ctx.geometry
        for_g = None if u_weight is None else _convolution(x, u_weight, stride, padding)
        if u_x is not None:
            other = _convolution(u_x, weight, stride, padding)
            for_g = other if for_g is None else for_g.add_(other)
        wanted = ctx.needs_input_grad[1] and u_weight is not None, ctx.needs_input_grad[2] and u_x is not None
        # Of an argument that is missing here only the shape would matter.
        image, kernel = x if u_x is None else u_x, weight if u_weight is None else u_weight
        return for_g, *_adjoints(g, image, kernel, stride, padding, wanted), None, None, None


class _NormPoolRelu(Function):
    @staticmethod
    def forward(ctx: Any, y: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
        mean, var = _aten.batch_norm_update_stats(y, None, None, 0.0)
        rate = (var + EPSILON).rsqrt()
        picked, where = _aten.max_pool2d_with_indices(y, [2, 2], [2, 2])
        scale = gain * rate
        out = torch.addcmul(_map(bias - mean * scale), picked, _map(scale)).relu_()
        ctx.save_for_backward(y, gain, mean, rate, picked, where, out)
        return out

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        for_y, for_gain, for_bias = _apply(_NormPoolReluAdjoint, g, *ctx.saved_tensors)
        return for_y, for_gain, for_bias


class _NormPoolReluAdjoint(Function):
    """(g, y, gain) -> the cotangents of y, gain and bias. With h = g where the output is positive and 0 elsewhere,
    G = sum(h) and H = sum(h * (picked - mean)) over each channel, and N elements a channel before pooling:

        bias: G
        gain: rate * H
        y: gain * rate * (put_back(h) - G / N - rate**2 * H * (y - mean) / N)

    The mean, the rate, the picked elements and the output are functions of y and gain that were known already.
    """

    @staticmethod
    def forward(ctx: Any, g: Tensor, y: Tensor, gain: Tensor, *known: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, rate, picked, where, out = known
        h = _aten.threshold_backward(g, out, 0)
        H, G = _correlate(h, picked, mean)
        ctx.save_for_backward(h, G, H, y, gain, *known)
        scale = gain * rate
        slope = scale * rate * rate * H / -_count(y)
        for_y = torch.addcmul(_map(scale * G / -_count(y) - slope * mean), y, _map(slope))
        return _put_back(for_y, h * _map(scale), where), rate * H, G

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, u: Tensor, u_gain: Tensor, u_bias: Tensor) -> tuple[Tensor | None, ...]:
        # The scalar to differentiate, as its cotangents u pair with the formulas above, is
        #     gain * rate * D - gain * rate**3 * H * C + u_gain * rate * H + u_bias * G
        # with C = sum(u * (y - mean)) / N and D = sum(u_picked * h) - G * mean(u) of each channel.
        h, G, H, y, gain, mean, rate, picked, where, out = ctx.saved_tensors
        N = _count(y)
        C, u_mean = (s / N for s in _correlate(u, y, mean))
        u_picked = _pick(u, where)
        D = (u_picked * h).sum((0, 2, 3)) - G * u_mean
        scale, square = gain * rate, rate * rate
        cube = scale * square
        per_H = u_gain * rate - cube * C
        for_h = u_picked.mul_(_map(scale)).addcmul_(picked, _map(per_H))
        for_h.add_(_map(u_bias - scale * u_mean - per_H * mean))
        for_gain = rate * (D - square * H * C)
        for_rate = gain * (D - 3 * square * H * C) + u_gain * H
        for_mean = cube * H * u_mean - per_H * G
        slope = for_rate * square * rate / -N  # d rate / d y = -rate**3 * (y - mean) / N
        for_y = torch.addcmul(_map(for_mean / N - slope * mean), y, _map(slope)).addcmul_(u, _map(cube * H / -N))
        _put_back(for_y, h * _map(per_H), where)
        return _aten.threshold_backward(for_h, out, 0), for_y, for_gain, None, None, None, None, None


def _apply(function: Any, *arguments: Any) -> Any:
    return function.apply(*arguments)  # PyTorch's `apply` has no types


def _convolution(x: Tensor, weight: Tensor, stride: int, padding: int) -> Tensor:
    out: Tensor = _aten.convolution(x, weight, None, [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], 1)
    return out


def _adjoints(
    g: Tensor, x: Tensor, weight: Tensor, stride: int, padding: int, wanted: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    """The cotangents of x and weight where g is that of conv(x, weight)."""
    if not any(wanted):
        return None, None
    for_x, for_weight, _ = _aten.convolution_backward(
        g, x, weight, None, [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], 1, [*wanted, False]
    )
    return for_x, for_weight


def _correlate(u: Tensor, y: Tensor, mean: Tensor) -> tuple[Tensor, Tensor]:
    """sum(u * (y - mean)) and sum(u) of each channel in one pass: what BatchNorm's weight and bias would get."""
    ones = torch.ones_like(mean)
    _, product, total = _aten.native_batch_norm_backward(
        u, y, None, None, None, mean, ones, True, 0.0, [False, True, True]
    )
    return product, total


def _pick(y: Tensor, where: Tensor) -> Tensor:
    """The elements of y (n, c, h, w) that max-pooling took: (n, c, h // 2, w // 2)."""
    n, c, h, w = where.shape
    return _pixels(y).gather(1, _pixels(where)).view(n, h, w, c).permute(0, 3, 1, 2)


def _put_back(y: Tensor, picked: Tensor, where: Tensor) -> Tensor:
    """Add `picked` in place to those elements of y."""
    _pixels(y).scatter_add_(1, _pixels(where), _pixels(picked))
    return y


def _pixels(y: Tensor) -> Tensor:
    """Maps (n, c, h, w) as (n, h * w, c): the order of memory in `channels_last`, a view in any case."""
    n, c, h, w = y.shape
    return y.permute(0, 2, 3, 1).view(n, h * w, c)


def _count(y: Tensor) -> int:
    return y.numel() // y.shape[1]


def _map(channel: Tensor) -> Tensor:
    """(c,) -> (c, 1, 1), to meet maps."""
    return channel[:, None, None]
