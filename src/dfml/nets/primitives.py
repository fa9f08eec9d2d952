"""Convolution, batch moments and max-pooling that are cheap to differentiate twice.

A second-order meta-gradient spends its time in the derivatives of derivatives. PyTorch's own cost several times the
arithmetic there: the second derivative of a convolution runs with a kernel as large as the image, and that of BatchNorm
makes dozens of passes over the map. The operations here are closed under differentiation instead:

    conv(x, w), its adjoint in x and its adjoint in w are each linear in two arguments, and the derivatives of each are
    the other two;
    max-pooling picks elements, its adjoint puts them back;
    the mean m and the variance v of a map y over its N elements have dm/dy = 1/N and dv/dy = 2 (y - m) / N.

Maps are fastest in the `channels_last` memory format; the values do not depend on it. All convolutions are without bias,
zero-padded and `groups=1`.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

_aten = torch.ops.aten
EPSILON = 1e-5  # of nn.BatchNorm2d
_CHANNELS = (0, 2, 3)  # reduce a map (n, c, h, w) to (c,)


def conv2d(x: Tensor, weight: Tensor, *, stride: int = 1, padding: int = 0) -> Tensor:
    """Maps (n, i, h, w) and weight (o, i, k, k) -> (n, o, h', w'); differentiable any number of times."""
    out: Tensor = _Conv.apply(x, weight, stride, padding)
    return out


def norm_pool_relu(y: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
    """BatchNorm by batch statistics, 2x2 max-pooling, ReLU: maps (n, c, h, w) -> (n, c, h // 2, w // 2); twice.

        relu(gain * rate * (maxpool(y) - mean) + bias),    rate = (var + epsilon) ** -0.5

    where the moments are those of the whole map of a channel. This is BatchNorm before pooling if `gain` >= 0.
    """
    out: Tensor = _NormPoolRelu.apply(y, gain, bias)
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
        return (
            _ConvInput.apply(g, weight, x.shape, *ctx.geometry) if ctx.needs_input_grad[0] else None,
            _ConvWeight.apply(g, x, weight.shape, *ctx.geometry) if ctx.needs_input_grad[1] else None,
            None,
            None,
        )


class _ConvInput(Function):
    """The adjoint of conv(x, weight) in x: (g, weight) -> like x."""

    @staticmethod
    def forward(ctx: Any, g: Tensor, weight: Tensor, shape: torch.Size, stride: int, padding: int) -> Tensor:
        ctx.save_for_backward(g, weight)
        ctx.geometry = stride, padding
        return _adjoints(g, _only_shape(shape, g), weight, stride, padding, (True, False))[0]

    @staticmethod
    def backward(ctx: Any, u: Tensor) -> tuple[Tensor | None, ...]:
        g, weight = ctx.saved_tensors
        return (
            _Conv.apply(u, weight, *ctx.geometry) if ctx.needs_input_grad[0] else None,
            _ConvWeight.apply(g, u, weight.shape, *ctx.geometry) if ctx.needs_input_grad[1] else None,
            None,
            None,
            None,
        )


class _ConvWeight(Function):
    """The adjoint of conv(x, weight) in weight: (g, x) -> like weight."""

    @staticmethod
    def forward(ctx: Any, g: Tensor, x: Tensor, shape: torch.Size, stride: int, padding: int) -> Tensor:
        ctx.save_for_backward(g, x)
        ctx.geometry = stride, padding
        return _adjoints(g, x, _only_shape(shape, g), stride, padding, (False, True))[1]

    @staticmethod
    def backward(ctx: Any, u: Tensor) -> tuple[Tensor | None, ...]:
        g, x = ctx.saved_tensors
        return (
            _Conv.apply(x, u, *ctx.geometry) if ctx.needs_input_grad[0] else None,
            _ConvInput.apply(g, u, x.shape, *ctx.geometry) if ctx.needs_input_grad[1] else None,
            None,
            None,
            None,
        )


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
        y, gain, *rest = ctx.saved_tensors
        return _NormPoolReluAdjoint.apply(g, y, gain, *rest)  # type: ignore[no-any-return]


class _NormPoolReluAdjoint(Function):
    """(g, y, gain) -> the cotangents of y, gain and bias, with h = g where the output is positive, else 0:

        G = sum(h)    H = sum(h * (picked - mean))        each (c,)
        bias: G       gain: rate * H
        y: put_back(gain * rate * h) - gain * rate / N * (G + rate**2 * H * (y - mean))
    """

    @staticmethod
    def forward(
        ctx: Any, g: Tensor, y: Tensor, gain: Tensor, mean: Tensor, rate: Tensor, picked: Tensor, where: Tensor, out: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        h = g * (out > 0)
        H, G = _correlate(h, picked, mean)
        ctx.save_for_backward(h, y, gain, mean, rate, picked, where, out, G, H)
        scale = gain * rate
        slope = -scale * rate**2 * H / _count(y)
        g_y = _put_back(h * _map(scale), where, y).addcmul_(y, _map(slope))
        return g_y.sub_(_map(scale * G / _count(y) + slope * mean)), rate * H, G

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, u: Tensor, u_gain: Tensor, u_bias: Tensor) -> tuple[Tensor | None, ...]:
        h, y, gain, mean, rate, picked, where, out, G, H = ctx.saved_tensors
        n = _count(y)
        # The scalar whose derivatives are wanted, with C = sum(u * (y - mean)) and D = sum(u at the picked * h), is
        #   gain * rate * (D - G * sum(u) / n) - gain * rate**3 * H * C / n + u_gain * rate * H + u_bias * G.
        C, total = _correlate(u, y, mean)
        u_mean = total / n
        u_picked = u.flatten(2).gather(2, where.flatten(2)).view_as(where)
        D = (u_picked * h).sum(_CHANNELS)
        scale, cube = gain * rate, gain * rate**3
        kappa = u_gain * rate - cube * C / n  # the coefficient of H
        g_g = u_picked.mul_(_map(scale)).addcmul_(picked, _map(kappa))
        g_g = g_g.add_(_map(u_bias - scale * u_mean - kappa * mean)).mul_(out > 0)
        g_gain = rate * (D - G * u_mean) - rate**3 * H * C / n
        g_rate = gain * (D - G * u_mean) - 3 * gain * rate**2 * H * C / n + u_gain * H
        g_mean = cube * H * u_mean - kappa * G
        slope = -(rate**3) * g_rate / n
        g_y = _put_back(h * _map(kappa), where, y).addcmul_(y, _map(slope)).addcmul_(u, _map(-cube * H / n))
        return g_g, g_y.add_(_map(g_mean / n - slope * mean)), g_gain, None, None, None, None, None


def _convolution(x: Tensor, weight: Tensor, stride: int, padding: int) -> Tensor:
    out: Tensor = _aten.convolution(x, weight, None, [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], 1)
    return out


def _adjoints(
    g: Tensor, x: Tensor, weight: Tensor, stride: int, padding: int, which: tuple[bool, bool]
) -> tuple[Tensor, Tensor]:
    """Of conv(x, weight), given the cotangent g: (in x, in weight), those that `which` asks for.

    Of the argument that is asked for only the shape matters.
    """
    g_x, g_weight, _ = _aten.convolution_backward(
        g, x, weight, None, [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], 1, [*which, False]
    )
    return g_x, g_weight


def _only_shape(shape: torch.Size, like: Tensor) -> Tensor:
    # PyTorch chooses the layout of the result, and may copy the rest, by the layout of this.
    return torch.empty(shape, dtype=like.dtype, device=like.device, memory_format=torch.channels_last)


def _correlate(u: Tensor, y: Tensor, mean: Tensor) -> tuple[Tensor, Tensor]:
    """sum(u * (y - mean)) and sum(u) of each channel in one pass: what BatchNorm's weight and bias would get."""
    _, product, total = _aten.native_batch_norm_backward(
        u, y, None, None, None, mean, torch.ones_like(mean), True, 0.0, [False, True, True]
    )
    return product, total


def _put_back(picked: Tensor, where: Tensor, y: Tensor) -> Tensor:
    """A map like y: `picked` at the places that max-pooling took, zero elsewhere."""
    out: Tensor = _aten.max_pool2d_with_indices_backward(picked, y, [2, 2], [2, 2], [0, 0], [1, 1], False, where)
    return out


def _count(x: Tensor) -> int:
    return x.numel() // x.shape[1]


def _map(channel: Tensor) -> Tensor:
    """(c,) -> (c, 1, 1), to meet maps."""
    return channel[:, None, None]
