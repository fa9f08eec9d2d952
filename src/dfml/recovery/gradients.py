"""Zero-order gradients: the slope of a function that can only be asked for its values.

An objective maps probes (m, n, c, h, w), that is m displaced copies of the same n images, to values (m, n), each image
for itself. With d = c h w and steps s_i of length |s_i|, every estimator that averages computes

    g(x) = d/q sum_i [f(x + s_i) - f(x)] s_i / |s_i|^2

which is eq:estimation for steps of one length mu. A step is what was really taken: where images travel with 256 levels
a pixel (`levels`), the probe is put on that grid first, and a step that rounding swallowed adds nothing.

Directions are drawn one after another and answers summed one after another, so neither memory nor the result depends on
how many of them share a call.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple, Protocol

import torch
from torch import Generator, Tensor

from dfml.apis.blackbox import images_a_call

Objective = Callable[[Tensor], Tensor]
"""probes (m, n, c, h, w) -> values (m, n)"""

IMAGES_A_CALL = 1024
"""An API works best on batches; several directions share a call until this many images are in it."""


class GradientEstimate(NamedTuple):
    """What was learned about a function at n images."""

    value: Tensor  # (n,) the objective itself at x: what "best so far" compares
    gradient: Tensor  # like x
    queries: int  # images the objective was asked for


class Estimator(Protocol):
    """The gradient of `objective` at images x (n, c, h, w) from a few of its values."""

    def __call__(
        self,
        objective: Objective,
        x: Tensor,
        *,
        directions: int,
        radius: float,
        rng: Generator,
        value: Tensor | None = None,
        levels: int | None = None,
    ) -> GradientEstimate:
        """`value` (n,) is the objective at x where it is already known, which saves n queries."""
        ...


NextDirection = Callable[[Tensor], Tensor]
"""Fills a buffer (n, d) with the next direction of every image, of any length, and returns it."""


def sphere(
    objective: Objective,
    x: Tensor,
    *,
    directions: int,
    radius: float,
    rng: Generator,
    value: Tensor | None = None,
    levels: int | None = None,
) -> GradientEstimate:
    """Forward differences along independent directions, uniform on the sphere (eq:estimation); q + 1 queries an image.

    On a linear f it is unbiased, with E|g_hat - g|^2 = (d - 1)/q |g|^2.
    """
    draw = partial(_gaussian, rng=rng)
    return averaged(objective, x, draw, directions=directions, radius=radius, value=value, levels=levels)


def antithetic(
    objective: Objective,
    x: Tensor,
    *,
    directions: int,
    radius: float,
    rng: Generator,
    value: Tensor | None = None,
    levels: int | None = None,
) -> GradientEstimate:
    """Central differences [f(x + s) - f(x - s)] / 2 along directions on the sphere; 2q + 1 queries an image.

    The even part of f cancels exactly, so on a quadratic f it is as good as `sphere` on a linear one. The one query at
    x serves the value alone.
    """
    draw = partial(_gaussian, rng=rng)
    return averaged(objective, x, draw, directions=directions, radius=radius, value=value, levels=levels, central=True)


def _gaussian(out: Tensor, *, rng: Generator) -> Tensor:
    """Standard normal numbers into `out`, which may be on another device than `rng`."""
    if out.device == rng.device:
        return out.normal_(generator=rng)
    return out.copy_(torch.empty(out.shape, dtype=out.dtype).normal_(generator=rng))


def averaged(
    objective: Objective,
    x: Tensor,
    draw: NextDirection,
    *,
    directions: int,
    radius: float,
    value: Tensor | None,
    levels: int | None,
    central: bool = False,
) -> GradientEstimate:
    """The average above over the directions that `draw` gives; `central` probes both sides of x."""
    n, sides = len(x), 1 + central
    value, queries = value_at(objective, x, value)
    flat = x.reshape(n, -1)
    chunk = min(directions, max(1, images_a_call(IMAGES_A_CALL, x.shape[1:]) // (n * sides)))
    steps = flat.new_empty(chunk, *flat.shape)
    probes = flat.new_empty(sides, *steps.shape)
    gradient = torch.zeros_like(flat)
    for first in range(0, directions, chunk):
        size = min(chunk, directions - first)
        with _one_thread():
            weights = torch.stack([_displace(flat, draw(steps[i]), probes[:, i], radius, levels) for i in range(size)])
        answers = objective(probes[:, :size].reshape(sides * size, *x.shape))
        rises = (answers[:size] - answers[size:]) / 2 if central else answers - value
        with _one_thread():
            for step, weight in zip(steps, rises * weights, strict=False):
                gradient.addcmul_(step, weight[:, None])
    gradient *= flat.shape[1] / directions
    return GradientEstimate(value, gradient.view_as(x), queries + directions * sides * n)


@contextmanager
def _one_thread() -> Iterator[None]:
    """For passes over a few megabytes: another thread gains nothing there, and spins on a core the API needs."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _displace(x: Tensor, step: Tensor, probes: Tensor, radius: float, levels: int | None) -> Tensor:
    """Write x + s, and x - s where `probes` has room for it; return w (n,) such that w * step = s / |s|^2.

    `step` comes in as a direction of any length. It is not normalised, which would be a pass over the data: its length
    goes into w. On a grid it becomes the displacement that was possible.
    """
    scale: Tensor = radius / torch.linalg.vector_norm(step, dim=1, keepdim=True)
    for sign, probe in zip((1, -1), probes, strict=False):
        torch.addcmul(x, step, scale, value=sign, out=probe)
    if levels is None:
        return scale.squeeze(1) / radius**2
    snap(probes, levels)
    if len(probes) == 1:
        torch.sub(probes[0], x, out=step)
    else:
        torch.sub(probes[0], probes[1], out=step).div_(2)
    square = step.square().sum(1)
    return torch.where(square > 0, 1 / square, torch.zeros_like(square))


def snap(images: Tensor, levels: int) -> Tensor:
    """`images`, in place, on the nearest of `levels` values from 0 to 1: what survives an upload."""
    return images.clamp_(0, 1).mul_(levels - 1).round_().div_(levels - 1)


def value_at(objective: Objective, x: Tensor, value: Tensor | None) -> tuple[Tensor, int]:
    """f(x) (n,), and what it cost to know it: nothing where `value` already is f(x)."""
    return (objective(x[None])[0], len(x)) if value is None else (value, 0)
