"""Pictures that random networks make: each by a small network of its own, from coarse maps to fine ones."""

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from dfml.images.colours import opponent

MAPS = 16
"""of a network, in every layer"""
COARSEST = 4
"""pixels across that a picture begins with; every layer doubles them"""
READ = 0.25
"""the share of the maps that each map of the next layer is made of"""
AT_ONCE = 8
"""pictures whose layers are computed together: what is worked on stays in the cache"""
BLURS = ([[0, 0, 0], [0, 1, 0], [0, 0, 0]], [[1, 2, 1], [2, 4, 2], [1, 2, 1]])
EDGES = (
    [[1, 0, -1], [2, 0, -2], [1, 0, -1]], [[1, 2, 1], [0, 0, 0], [-1, -2, -1]],
    [[2, 1, 0], [1, 0, -1], [0, -1, -2]], [[0, 1, 2], [-1, 0, 1], [-2, -1, 0]],
    [[-1, 2, -1], [-2, 4, -2], [-1, 2, -1]], [[-1, -2, -1], [2, 4, 2], [-1, -2, -1]],
    [[0, -1, 0], [-1, 4, -1], [0, -1, 0]],
)  # fmt: skip
"""bars, edges and spots, as the first filters of trained networks are"""


def network_pictures(count: int, size: int, *, rng: Generator) -> Tensor:
    """Images (count, 3, size, size) in [0, 1], each the output of a random network that makes no other.

    What such a network makes has structure at every scale: edges that go on, textures that belong to a region, one
    colour for what hangs together (after Baradad et al., 2021, whose networks are untrained StyleGANs with oriented
    filters). Every layer filters a few maps of the one before, adds noise of another strength to each map, bends the
    result, and doubles its size.
    """
    parts = [_drawn(min(AT_ONCE, count - start), size, rng=rng) for start in range(0, count, AT_ONCE)]
    return torch.cat(parts) if parts else torch.empty(0, 3, size, size)


def _drawn(count: int, size: int, *, rng: Generator) -> Tensor:
    def draw(low: float, high: float, *shape: int) -> Tensor:
        return torch.rand(count, *shape, 1, 1, generator=rng) * (high - low) + low

    across = min(COARSEST, size)
    maps = torch.randn(count, MAPS, across, across, generator=rng)
    while True:
        maps = _filtered(maps, rng=rng)
        strength = draw(0, 1, MAPS).pow(3) * draw(0, 0.8, 1)
        noise = torch.randn(count, 1, across, across, generator=rng)
        maps = F.leaky_relu(maps + strength * noise + torch.randn(count, MAPS, 1, 1, generator=rng) / 2, 0.2)
        if across == size:
            break
        across = min(2 * across, size)
        maps = F.interpolate(maps, (across, across), mode="bilinear", align_corners=False)
    seen = torch.randn(count, 3, MAPS, generator=rng) * (torch.rand(count, 3, MAPS, generator=rng) < 0.4)
    planes = torch.einsum("nom,nmhw->nohw", seen, maps)  # lightness, and twice colour
    planes = _even(planes - planes.mean((-2, -1), keepdim=True))
    picture = opponent(planes * torch.cat([draw(1, 1, 1), draw(0, 0.5, 2)], 1))
    picture = picture / picture.flatten(1).std(1).clamp_min(1e-3).view(-1, 1, 1, 1)
    return (picture * draw(0.12, 0.33, 1) + draw(0.3, 0.7, 1) + draw(-0.1, 0.1, 3)).clamp_(0, 1)


def _filtered(maps: Tensor, *, rng: Generator) -> Tensor:
    """Every map from a few of those before, each through a blur or an edge, all of the same spread."""
    count, across = len(maps), maps.shape[-1]
    kinds = torch.tensor(BLURS + EDGES, dtype=torch.float).flatten(1)
    pairs = (count, MAPS, MAPS)
    blurred = torch.rand(pairs, generator=rng) < 0.5
    blur = torch.randint(len(BLURS), pairs, generator=rng)
    edge = torch.randint(len(BLURS), len(kinds), pairs, generator=rng)
    weight = torch.randn(pairs, generator=rng) * (torch.rand(pairs, generator=rng) < READ)
    filters = weight.unsqueeze(-1) * F.normalize(kinds, dim=1)[torch.where(blurred, blur, edge)]
    windows = F.pad(maps, (1,) * 4, mode="replicate").unfold(2, across, 1).unfold(3, across, 1)  # F.unfold is slower
    # one by one: the windows of a picture fit the cache, those of eight do not
    made = [own @ window.reshape(-1, across**2) for own, window in zip(filters.flatten(2), windows, strict=True)]
    return _even(torch.stack(made).view_as(maps))


def _even(maps: Tensor) -> Tensor:
    """Each map with unit spread; where its mean lies decides how much of it is bent."""
    pixels = maps.shape[-1] ** 2
    mean, square = (x.mean((-2, -1), keepdim=True) for x in (maps, maps.square()))  # five times as fast as Tensor.var
    return maps / ((square - mean.square()) * (pixels / (pixels - 1))).clamp_min(1e-6).sqrt()
