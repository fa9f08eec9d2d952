"""Zero-order gradients that make the most of few queries: orthogonal directions and low-dimensional probes.

A slope along one of d = 3,072 random directions says almost nothing about an image. Two remedies, both exact where the
function is linear and the directions span the space: never ask along a direction that was asked before, and ask only
along smooth ones, where the classifiers of natural images react most.
"""

import math
from functools import lru_cache

import torch
from torch import Generator, Tensor

from dfml.apis.blackbox import images_a_call
from dfml.errors import ConfigError
from dfml.recovery.gradients import (
    IMAGES_A_CALL,
    GradientEstimate,
    Objective,
    arriving,
    averaged,
    moved,
    snap,
    value_at,
)

ALL = 0.99
"""a share of steps that passes for all of them"""


def orthogonal(
    objective: Objective,
    x: Tensor,
    *,
    directions: int,
    radius: float,
    rng: Generator,
    value: Tensor | None = None,
    levels: int | None = None,
) -> GradientEstimate:
    """Forward differences along orthonormal directions of the whole image space; q + 1 queries an image.

    Direction i of an image is e * b_i: b_i a cosine pattern, drawn without replacement, e a pattern of random signs
    that the image keeps. E[u u^T] = I/d as on the sphere, so a linear f is estimated without bias, but now with
    E|g_hat - g|^2 = (d/q - 1) |g|^2, which is 0 at q = d. Each is made when it is needed: memory does not grow with q.
    """
    n, (channels, height, width) = len(x), x.shape[1:]
    d = channels * height * width
    if directions > d:
        raise ConfigError(f"images of {d} values have {d} orthogonal directions, not {directions}; lower `directions`")
    colour, rows, columns = (cosines(size).to(x) for size in (channels, height, width))
    signs = torch.randint(0, 2, x.shape, generator=rng).to(x).mul_(2).sub_(1)
    drawn = torch.stack([torch.randperm(d, generator=rng)[:directions] for _ in range(n)], dim=1)
    order = iter(drawn.to(x.device))

    def draw(out: Tensor) -> Tensor:
        pattern = next(order)
        c, r, k = pattern // (height * width), pattern // width % height, pattern % width
        wave = colour[c][:, :, None, None] * rows[r][:, None, :, None] * columns[k][:, None, None, :]
        torch.mul(wave, signs, out=out.view(x.shape))
        return out

    return averaged(objective, x, draw, directions=directions, radius=radius, value=value, levels=levels)


def subspace(
    objective: Objective,
    x: Tensor,
    *,
    directions: int,
    radius: float,
    rng: Generator,
    value: Tensor | None = None,
    levels: int | None = None,
    resolution: int = 4,
) -> GradientEstimate:
    """The gradient within the k = c * resolution^2 smoothest cosine patterns B (k, d); q + 1 queries an image.

    Probes are x + radius * v_i B with random v_i, orthonormal while q <= k, and the slopes f(x + s_i) - f(x) are
    explained by least squares of least norm in v_i; k/q makes up for what q < k directions cannot see. Of a linear f it
    gives the projection B g, without bias for q < k and exactly for q >= k. Where only a share r of a step arrives
    (`gradients.arriving`) that would be B r g, which is B r B^T times the projection of a gradient that is as smooth as
    the probes: the system is solved. Memory: one call's probes (`IMAGES_A_CALL`) and n q k coordinates.
    """
    n = len(x)
    patterns = smooth_patterns(tuple(x.shape[1:]), resolution)
    basis, k = patterns.to(x), len(patterns)
    value, queries = value_at(objective, x, value)
    frames = _frames(n, directions, k, rng).to(x)
    rises = x.new_empty(directions, n)
    flat, chunk = x.reshape(n, -1), max(1, images_a_call(IMAGES_A_CALL, x.shape[1:]) // n)
    for first in range(0, directions, chunk):
        part = slice(first, min(first + chunk, directions))
        probes = snap(torch.stack([torch.addmm(flat, frame, basis, alpha=radius) for frame in frames[part]]), levels)
        rises[part] = objective(probes.view(-1, *x.shape)) - value
        if levels is not None:
            rises[part] *= moved(probes, flat)
    seen = torch.linalg.pinv(frames.transpose(0, 1)) @ rises.T[:, :, None] / radius  # (n, k, 1)
    share = arriving(flat, radius * (patterns.square().sum(0) / k).sqrt(), levels)
    for i in (share < ALL).any(1).nonzero().flatten().tolist():  # images with pixels near white or black
        seen[i] = torch.linalg.solve((share[i] * basis) @ basis.T, seen[i])
    gradient = max(1.0, k / directions) * seen.squeeze(2) @ basis
    return GradientEstimate(value, gradient.view_as(x), queries + directions * n)


def _frames(n: int, directions: int, k: int, rng: Generator) -> Tensor:
    """Unit vectors (directions, n, k): for each of n, random frames of k orthonormal ones, one after another."""
    frames = []
    for first in range(0, directions, k):
        gaussian = torch.randn(n, k, min(k, directions - first), generator=rng)
        q, r = torch.linalg.qr(gaussian)
        # The decomposition fixes signs by its own habit; with those of R they are uniform again.
        frames.append((q * r.diagonal(dim1=1, dim2=2).sign()[:, None, :]).permute(2, 0, 1))
    return torch.cat(frames)


@lru_cache(maxsize=8)
def smooth_patterns(shape: tuple[int, int, int], resolution: int) -> Tensor:
    """Orthonormal rows (c * resolution^2, c h w): in each channel the cosine patterns of the lowest frequencies."""
    channels, height, width = shape
    if not 1 <= resolution <= min(height, width):
        raise ConfigError(f"`resolution` must lie between 1 and the image side {min(height, width)}, not {resolution}")
    rows, columns = cosines(height)[:resolution], cosines(width)[:resolution]
    plane = torch.einsum("ah,bw->abhw", rows, columns).reshape(resolution**2, height * width)
    return torch.kron(torch.eye(channels, dtype=plane.dtype), plane)


def cosines(size: int) -> Tensor:
    """The orthonormal cosine basis (DCT-II) of R^size in float64, one pattern a row, slowest first."""
    frequency, place = torch.arange(size, dtype=torch.float64)[:, None], torch.arange(size, dtype=torch.float64)
    waves = math.sqrt(2 / size) * torch.cos(math.pi / size * (place + 0.5) * frequency)
    waves[0] /= math.sqrt(2)
    return waves
