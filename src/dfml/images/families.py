"""Kinds of things that never were: many pictures of each, so that telling kinds apart can be practised for nothing."""

import torch
from torch import Generator, Tensor

from dfml.images.colours import palette
from dfml.images.layouts import leaves, things
from dfml.images.prior import finish
from dfml.images.scenes import render
from dfml.rng import stream

_KINDS = 16  # drawn together


def families(kinds: int, views: int, *, seed: int, size: int = 32, channels: int = 3) -> Tensor:
    """`views` pictures of each of `kinds` kinds of things: uint8 (kinds, views, channels, size, size).

    The pictures of one kind differ in pose, light, sharpness, clutter and camera. Kinds differ in what they
    keep: most keep shape and colours, some only the one or the other, and 6 in 10 their surroundings.
    Kind i depends on the seed, the number of views, the shape and i alone.
    """
    drawn = [
        finish(_draw(_KINDS, views, size, rng=stream(seed, "families", size, views, first)), channels)
        for first in range(0, kinds, _KINDS)
    ]
    return torch.cat(drawn)[: kinds * views].view(kinds, views, channels, size, size)


def _draw(kinds: int, views: int, size: int, *, rng: Generator) -> Tensor:
    """Pictures (kinds * views, 3, size, size) in [0, 1], those of one kind in a row."""
    n = kinds * views

    def alike(values: Tensor) -> Tensor:
        return values[::views].repeat_interleave(views, 0)

    keeps = alike(torch.rand(n, 1, generator=rng))  # below 0.35: not its colours; above 0.8: not its shape
    at_home = alike(torch.rand(n, 1, generator=rng)) < 0.6
    layout = leaves(n, most=4, size=size, rng=rng).beside(
        things(n, size=size, rng=rng, views=views, free=keeps > 0.8), apart=True
    )
    count = int(layout.family.max()) + 1
    fresh = palette(n, count + 2, rng=rng)
    tint = 1 + 0.12 * torch.randn(n, 1, 1, generator=rng) + 0.02 * torch.randn(n, 1, 3, generator=rng)
    kept = (alike(fresh) * tint).clamp_(0.02, 1)
    colours = torch.where(keeps.unsqueeze(-1) < 0.35, fresh, kept)[:, :count]
    behind = torch.where(at_home.unsqueeze(-1), kept, fresh)[:, count:]
    return render(layout, size, colours=colours, behind=behind, rng=rng, views=views)
