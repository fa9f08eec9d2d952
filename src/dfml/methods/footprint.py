"""What a planned run needs of the machine: roughly, and before it begins."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from dfml.apis.blackbox import ApiSpec
from dfml.nets import NetSpec

LOADED = 450_000_000
"""bytes of a process that has loaded dfml and done nothing"""
KEY = 40
"""bytes of an answer on file, besides its numbers"""
CALL = 64_000_000
"""bytes of the images of one call to an API, at most"""


@dataclass(frozen=True)
class Footprint:
    """Bytes at the peak, besides those of local APIs, and bytes that the run folder will hold."""

    memory: int
    disk: int


def ledger_bytes(queries: Sequence[int], specs: Sequence[ApiSpec]) -> int:
    """What the answers of all APIs take on disk."""
    return sum(count * (4 * spec.way + KEY) for count, spec in zip(queries, specs, strict=True))


def image_bytes(spec: NetSpec) -> int:
    """An 8-bit image of the meta model's size."""
    return spec.channels * spec.size**2


def feature_count(spec: NetSpec) -> int:
    """What the last layer reads."""
    return spec.widths[-1] * (1 if spec.residual else (spec.size // 16) ** 2)


def multiplications(spec: NetSpec) -> float:
    """Of one image's way through the body."""
    area, width = spec.size**2, spec.width
    if spec.residual:
        blocks = 1 if spec.arch == "resnet10" else 2
        return area * 9 * width * (spec.channels + width * 4 * 2 * blocks)
    layers = pairwise((spec.channels, *spec.widths))
    return area * 9 * sum(inputs * filters * 0.25**block for block, (inputs, filters) in enumerate(layers))


def activation_bytes(spec: NetSpec) -> int:
    """What training keeps of one image until the gradient is computed: about four maps a layer."""
    maps = (
        8.0 * spec.width if spec.residual else sum(filters * 0.25**block for block, filters in enumerate(spec.widths))
    )
    return int(4 * 4 * maps * spec.size**2)


def recovery_footprint(
    net: NetSpec, specs: Sequence[ApiSpec], queries: Sequence[int], *, sets: int, images_per_class: int
) -> Footprint:
    """Of a method that recovers `sets` sets of images in all and keeps them, in memory and in the run folder."""
    classes = sum(spec.way for spec in specs) / max(1, len(specs))
    kept = int(sets * classes * images_per_class * (4 * image_bytes(net) + 4 * classes))
    working = int(3 * classes * images_per_class * activation_bytes(net))  # of a generator, or of second derivatives
    return Footprint(LOADED + CALL + kept + working, ledger_bytes(queries, specs) + kept)
