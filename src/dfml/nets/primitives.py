"""Convolution and the rest of a Conv4 block, made cheap to differentiate twice.

A second-order meta-gradient spends its time in derivatives of derivatives. PyTorch's own cost several times the
arithmetic: the second derivative of a convolution runs with a kernel as large as the image, and that of BatchNorm makes
dozens of passes over the map. Here

- a convolution, its adjoint in the image and its adjoint in the filter are three operations, each linear in its two
  arguments, and the derivatives of each are the other two;
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
    """Maps (n, i, h, w) and weight (o, i, k, k) -> (n, o, h', w'), zero-padded; differentiable any number of times."""
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
        out: Tensor = _aten.convolution(x, weight, None, [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], 1)
        return out

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        for_x = _apply(_ConvImage, g, weight, x.shape, *ctx.geometry) if ctx.needs_input_grad[0] else None
        for_weight = _apply(_ConvFilter, g, x, weight.shape, *ctx.geometry) if ctx.needs_input_grad[1] else None
        return for_x, for_weight, None, None


class _ConvImage(Function):
    """The adjoint of conv(x, weight) in x: (g, weight) -> like x."""

    @staticmethod
    def forward(ctx: Any, g: Tensor, weight: Tensor, shape: torch.Size, stride: int, padding: int) -> Tensor:
        ctx.save_for_backward(g, weight)
        ctx.geometry = stride, padding
        return _adjoint(g, _only_shape(shape, g), weight, stride, padding, index=0)

    @staticmethod
    def backward(ctx: Any, u: Tensor) -> tuple[Tensor | None, ...]:
        g, weight = ctx.saved_tensors
        for_g = _apply(_Conv, u, weight, *ctx.geometry) if ctx.needs_input_grad[0] else None
        for_weight = _apply(_ConvFilter, g, u, weight.shape, *ctx.geometry) if ctx.needs_input_grad[1] else None
        return for_g, for_weight, None, None, None


class _ConvFilter(Function):
    """The adjoint of conv(x, weight) in weight: (g, x) -> like weight."""

    @staticmethod
    def forward(ctx: Any, g: Tensor, x: Tensor, shape: torch.Size, stride: int, padding: int) -> Tensor:
        ctx.save_for_backward(g, x)
        ctx.geometry = stride, padding
        return _adjoint(g, x, _only_shape(shape, g), stride, padding, index=1)

    @staticmethod
    def backward(ctx: Any, u: Tensor) -> tuple[Tensor | None, ...]:
        g, x = ctx.saved_tensors
        for_g = _apply(_Conv, x, u, *ctx.geometry) if ctx.needs_input_grad[0] else None
        for_x = _apply(_ConvImage, g, u, x.shape, *ctx.geometry) if ctx.needs_input_grad[1] else None
        return for_g, for_x, None, None, None


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
        for_y = _put_back(h * _map(scale), where, y).addcmul_(y, _map(slope))
        return for_y.sub_(_map(scale * G / _count(y) + slope * mean)), rate * H, G

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, u: Tensor, u_gain: Tensor, u_bias: Tensor) -> tuple[Tensor | None, ...]:
        # The scalar to differentiate, as its cotangents u pair with the formulas above, is
        #     gain * rate * D - gain * rate**3 * H * C + u_gain * rate * H + u_bias * G
        # with C = sum(u * (y - mean)) / N and D = sum(u_picked * h) - G * mean(u) of each channel.
        h, G, H, y, gain, mean, rate, picked, where, out = ctx.saved_tensors
        N = _count(y)
        C, u_mean = (s / N for s in _correlate(u, y, mean))
        u_picked = u.flatten(2).gather(2, where.flatten(2)).view_as(where)
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
        for_y = _put_back(h * _map(per_H), where, y).addcmul_(y, _map(slope)).addcmul_(u, _map(cube * H / -N))
        for_y.add_(_map(for_mean / N - slope * mean))
        return _aten.threshold_backward(for_h, out, 0), for_y, for_gain, None, None, None, None, None


def _apply(function: Any, *arguments: Any) -> Any:
    return function.apply(*arguments)  # PyTorch's `apply` has no types


def _adjoint(g: Tensor, x: Tensor, weight: Tensor, stride: int, padding: int, *, index: int) -> Tensor:
    """The cotangent of conv's argument 0 (x) or 1 (weight), of which only the shape matters."""
    wanted = [index == 0, index == 1, False]
    out: tuple[Tensor, ...] = _aten.convolution_backward(
        g, x, weight, None, [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], 1, wanted
    )
    return out[index]


def _only_shape(shape: torch.Size, like: Tensor) -> Tensor:
    # PyTorch chooses the layout of the result, and may copy the other arguments, by the layout of this one.
    return torch.empty(shape, dtype=like.dtype, device=like.device, memory_format=torch.channels_last)


def _correlate(u: Tensor, y: Tensor, mean: Tensor) -> tuple[Tensor, Tensor]:
    """sum(u * (y - mean)) and sum(u) of each channel in one pass: what BatchNorm's weight and bias would get."""
    ones = torch.ones_like(mean)
    _, product, total = _aten.native_batch_norm_backward(
        u, y, None, None, None, mean, ones, True, 0.0, [False, True, True]
    )
    return product, total


def _put_back(picked: Tensor, where: Tensor, y: Tensor) -> Tensor:
    """A map like y: `picked` at the places that max-pooling took, zero elsewhere."""
    out: Tensor = _aten.max_pool2d_with_indices_backward(picked, y, [2, 2], [2, 2], [0, 0], [1, 1], False, where)
    return out


def _count(y: Tensor) -> int:
    return y.numel() // y.shape[1]


def _map(channel: Tensor) -> Tensor:
    """(c,) -> (c, 1, 1), to meet maps."""
    return channel[:, None, None]
