"""Zero-order gradients: the slope of a function that can only be asked for its values.

An objective maps probes (m, n, c, h, w), that is m displaced copies of the same n images, to values (m, n), each image
for itself. With d = c h w and steps s_i of length mu, every estimator that averages computes

    g(x) = d/(q mu^2) sum_i [f(x + s_i) - f(x)] s_i

which is eq:estimation. No endpoint takes a pixel below 0 or above 1, and one that takes 8-bit images rounds it, so f is
asked for where a step arrived. Of a linear f the sum is then r_j g_j at pixel j, with r_j the share of a random step
that arrives there (`arriving`), a half at white and black; it is divided by that.

Directions are drawn one after another and answers summed one after another, so neither memory nor the result depends on
how many of them share a call.
"""

import math
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
FAR = 6.0
"""standard deviations that no step is expected to pass"""
HARDLY = 1e-3
"""a share of steps that rounding leaves so little of that its inverse would blow up what is left"""


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
    gradient /= arriving(flat, torch.tensor(radius / math.sqrt(flat.shape[1])), levels)
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
    goes into w. Where rounding swallowed a whole step, w is 0: nothing was asked, and nothing was learned.
    """
    scale: Tensor = radius / torch.linalg.vector_norm(step, dim=1, keepdim=True)
    for sign, probe in zip((1, -1), probes, strict=False):
        torch.addcmul(x, step, scale, value=sign, out=probe)
    snap(probes, levels)
    weight = scale.squeeze(1) / radius**2
    return weight if levels is None else weight * moved(probes, x).any(0)


def snap(images: Tensor, levels: int | None) -> Tensor:
    """`images`, in place, as an endpoint gets them: within [0, 1], and rounded where that has `levels`."""
    images.clamp_(0, 1)
    return images if levels is None else images.mul_(levels - 1).round_().div_(levels - 1)


def moved(probes: Tensor, x: Tensor) -> Tensor:
    """Which of the probes (..., n, d) of x (n, d) still differ from it."""
    return (probes != x).any(-1)


def arriving(x: Tensor, sigma: Tensor, levels: int | None) -> Tensor:
    """The share r of a random step u that arrives at each pixel of x: r = E[s u] / E[u^2], s what is left of u.

    For normal u of standard deviation `sigma`, which pixels of random directions nearly are, Stein's identity makes it
    the chance of a step that fits; on a grid, the density at the midpoints between levels. 1 where there is room on
    both sides, 1/2 at white and black, and that for any direction as likely as its opposite. `sigma` comes on the CPU,
    where its largest value is looked at.
    """
    widest, sigma = sigma.max().item(), sigma.to(x)
    above, below = (1 - x) / sigma, x / sigma
    if levels is None:
        return (torch.erf(above / math.sqrt(2)) + torch.erf(below / math.sqrt(2))) / 2
    level = 1 / ((levels - 1) * sigma)
    share = torch.zeros_like(above)
    for number in range(1, 2 + int(FAR * (levels - 1) * widest)):
        midpoint = (number - 0.5) * level
        density = level * torch.exp(-midpoint.square() / 2) / math.sqrt(2 * math.pi)
        share += density * ((above > midpoint).to(x) + (below > midpoint).to(x))
    return torch.where(share > HARDLY, share, torch.ones_like(share))


def value_at(objective: Objective, x: Tensor, value: Tensor | None) -> tuple[Tensor, int]:
    """f(x) (n,), and what it cost to know it: nothing where `value` already is f(x)."""
    return (objective(x[None])[0], len(x)) if value is None else (value, 0)
