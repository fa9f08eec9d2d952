"""Colours as the world has them: much light and dark, some blue and yellow, little red and green."""

import torch
from torch import Generator, Tensor

# Rows: what one unit of lightness, of yellow-blue and of red-green adds to (red, green, blue).
_AXES = torch.tensor([[1.0, 1.0, 1.0], [0.6, 0.25, -0.85], [0.75, -0.7, -0.05]])
LUMINANCE = torch.tensor([0.299, 0.587, 0.114])


def opponent(planes: Tensor) -> Tensor:
    """Lightness, yellow-blue and red-green planes (n, 3, ...) as red, green and blue."""
    return torch.einsum("ij,ni...->nj...", _AXES, planes)


def palette(count: int, colours: int, *, rng: Generator) -> Tensor:
    """`colours` colours (count, colours, 3) in [0, 1] for each of `count` images, which share a cast and a vividness.

    Chroma is heavy-tailed: most colours are near grey and a few are vivid.
    """
    light = torch.rand(count, colours, 1, generator=rng)
    vivid = 0.02 + 0.18 * torch.rand(count, 1, 1, generator=rng)
    spread = torch.tensor([1.0, 0.7])
    chroma = torch.randn(count, colours, 2, generator=rng) * spread * vivid
    chroma = chroma * torch.rand(count, colours, 1, generator=rng).mul_(1.5).exp_().div_(2.5)
    cast = torch.randn(count, 1, 2, generator=rng) * 0.05
    return opponent(torch.cat([light, chroma + cast], -1).flatten(0, 1)).view(count, colours, 3).clamp_(0.02, 1)
