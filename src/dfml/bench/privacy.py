"""How close do the images of learning come to the real ones that the APIs were trained on?

The paper says that black-box recovery does not leak them and white-box recovery does. Here that is a number: for every
image its nearest real training image of the same API, by pixel distance and by SSIM, and the same for real images that
the API was not trained on. Learning that leaks comes closer than those.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from dfml.apis.blackbox import fit_to
from dfml.apis.manifest import ApiEntry
from dfml.bench.cells import Cell
from dfml.data import open_dataset
from dfml.images.prior import prior
from dfml.images.sheet import contact_sheet
from dfml.initialisation import Initialisation
from dfml.recovery.recovered import RecoveredSet
from dfml.rng import derive_seed
from dfml.zoo.lessons import split_class

if TYPE_CHECKING:
    from dfml.bench.zoos import Zoos

APIS, IMAGES = 3, 50
"""APIs looked at, and images of each"""
WINDOW, C1, C2 = 7, 0.01**2, 0.03**2
UNBIASED = WINDOW**2 / (WINDOW**2 - 1)


class Nearest(NamedTuple):
    """The nearest of many images to each of a few."""

    value: Tensor  # (n,)
    place: Tensor  # (n,) its number


def nearest_pixels(images: Tensor, among: Tensor) -> Nearest:
    """By root mean square difference of pixels, the smallest."""
    distance = torch.cdist(images.flatten(1), among.flatten(1)) / images[0].numel() ** 0.5
    return Nearest(*distance.min(1))


def nearest_ssim(images: Tensor, among: Tensor) -> Nearest:
    """By SSIM, the largest."""
    others = _windows(among)
    best = [_similarity(_windows(image[None]), others).max(0) for image in images]
    return Nearest(torch.stack([one.values for one in best]), torch.stack([one.indices for one in best]))


def ssim(image: Tensor, others: Tensor) -> Tensor:
    """Structural similarity (n,) of one image (c, h, w) in [0, 1] with others (n, c, h, w).

    Wang et al. 2004 with a flat 7 x 7 window and sample covariances, over whole windows only, mean over channels.
    """
    return _similarity(_windows(image[None]), _windows(others))


class _Windows(NamedTuple):
    """Images, and mean and variance of every window in them."""

    images: Tensor
    mean: Tensor
    variance: Tensor


def _windows(images: Tensor) -> _Windows:
    mean = _mean(images)
    return _Windows(images, mean, (_mean(images * images) - mean**2) * UNBIASED)


def _mean(x: Tensor) -> Tensor:
    """Over every window, columns first: 14 additions instead of 49."""
    return F.avg_pool2d(F.avg_pool2d(x, (WINDOW, 1), stride=1), (1, WINDOW), stride=1)


def _similarity(a: _Windows, b: _Windows) -> Tensor:
    covariance = (_mean(a.images * b.images) - a.mean * b.mean) * UNBIASED
    likeness = (2 * a.mean * b.mean + C1) * (2 * covariance + C2)
    return (likeness / ((a.mean**2 + b.mean**2 + C1) * (a.variance + b.variance + C2))).mean((1, 2, 3))


def measure_privacy(cell: Cell, run: Path, zoos: "Zoos", data: Path | None, out: Path) -> dict[str, float]:
    """Means over images of the nearest real training image, and a sheet of the closest pairs in `out`/images."""
    entries = zoos.entries(cell.apis)
    limits = [draw.zoo.images_per_class for draw in cell.apis]
    sums: dict[str, list[Tensor]] = {}
    pairs = []
    for name, images in images_of(run, cell, list(entries)):
        known, unknown = _real(entries[name], data, limits[0])
        images = fit_to(images, entries[name].image)
        for what, some in (("learned from", images), ("real, not trained on", _spread(unknown))):
            pixels, structure = nearest_pixels(some, known), nearest_ssim(some, known)
            sums.setdefault(f"pixel distance, {what}", []).append(pixels.value)
            sums.setdefault(f"ssim, {what}", []).append(structure.value)
            if what == "learned from":
                closest = structure.value.argsort(descending=True)[:8]
                pairs.append(torch.cat([some[closest], known[structure.place[closest]]]))
    (out / "images").mkdir(parents=True, exist_ok=True)
    sheet = (torch.cat(pairs) * 255).round().to(torch.uint8)
    contact_sheet(sheet, columns=8).save(out / "images" / f"{cell.stem}.png")
    return {name: round(torch.cat(values).mean().item(), 4) for name, values in sums.items()}


def images_of(run: Path, cell: Cell, names: Sequence[str]) -> list[tuple[str, Tensor]]:
    """What a run showed to some of its APIs, and learned from: (API, images)."""
    found: dict[str, Tensor] = {}
    for file in sorted((run / "recovered").glob("*-support.safetensors")):
        recovered = RecoveredSet.load(file)
        found.setdefault(recovered.classes[0].api, recovered.images)
    if not found:  # no API was inverted: all saw procedural images of one pool
        init = Initialisation.load(run)
        settings = init.provenance["settings"]
        kind, size = settings.get("pictures", "painted"), settings.get("picture_size") or init.net.size
        pool = prior(IMAGES, seed=derive_seed(cell.seed, "pool"), size=size, kind=kind).float() / 255
        found = dict.fromkeys(names, pool)
    return [(name, _spread(images)) for name, images in list(found.items())[:APIS]]


def _spread(images: Tensor) -> Tensor:
    return images[:: -(-len(images) // IMAGES)]


def _real(entry: ApiEntry, data: Path | None, limit: int | None) -> tuple[Tensor, Tensor]:
    """The API's own training images, and images of the same classes that were held out."""
    part = open_dataset(entry.dataset or "", "train", data=data)
    images = {name: part.tensor(part.classes.index(name))[:limit] for name in entry.classes}
    known, unknown = zip(*(split_class(of_class, name) for name, of_class in images.items()), strict=True)
    return torch.cat(known), torch.cat(unknown)
