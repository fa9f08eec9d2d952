"""The meta model's shape, where the user left it to the APIs."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from dfml.apis.blackbox import ApiSpec
from dfml.config import above_zero, zero_or_more
from dfml.errors import ConfigError
from dfml.nets import Arch, NetSpec
from dfml.nets.functional import Net, Params
from dfml.rng import stream

SMALLEST_SIZE = 16
"""pixels of a side below which the network does not follow the APIs"""
USUAL_WAY, LARGEST_WAY = 5, 20
"""the head's classes where most APIs have more than the latter: a task of 1,000 classes is not a few images"""


@dataclass(frozen=True, kw_only=True)
class MetaModelConfig:
    """The network that is learned. Zeros follow the APIs, as far as that suits a few-shot task."""

    arch: Arch = "conv4"
    width: int = 32
    """filters of the first layer"""
    way: int = 0
    """classes of the head; 0: as most APIs have, or 5 if that is more than 20"""
    size: int = 0
    """pixels of a side of its images; 0: as most APIs take, at least 16 and at most `largest`"""
    largest: int = 32
    """pixels of a side up to which it follows the APIs: at 48 an update takes twice as long, at 224 50 times"""
    channels: int = 0
    """0: as most APIs take"""
    filter_length: float = 1.0
    """of the filters at the beginning, as a share of the usual one: BatchNorm hides it from every answer, but the
    shorter a filter, the further a step of gradient descent turns it"""

    def __post_init__(self) -> None:
        above_zero(self, "net", "width", "filter_length")
        zero_or_more(self, "net", "way", "size", "channels")
        if self.largest < SMALLEST_SIZE:
            raise ConfigError(f"net.largest must be at least {SMALLEST_SIZE} pixels, not {self.largest}")

    def fitted(self, specs: Sequence[ApiSpec]) -> "MetaModelConfig":
        """With every zero replaced by what is most common among the APIs, ties to the larger, and within the bounds."""
        shapes = [spec.image for spec in specs]
        way = most_common([spec.way for spec in specs])
        size = most_common([height for _, height, _ in shapes])
        return replace(
            self,
            way=self.way or (way if way <= LARGEST_WAY else USUAL_WAY),
            size=self.size or min(max(size, SMALLEST_SIZE), self.largest),
            channels=self.channels or most_common([channels for channels, _, _ in shapes]),
        )

    @property
    def spec(self) -> NetSpec:
        """The shape, once nothing is left open."""
        if 0 in (self.way, self.size, self.channels):
            raise ConfigError("the meta model's way, size and channels are still open; plan the run first")
        return NetSpec(arch=self.arch, width=self.width, way=self.way, size=self.size, channels=self.channels)

    def begin(self, seed: int, *, device: torch.device | str = "cpu") -> Params:
        """The weights that learning begins with."""
        fresh = Net(self.spec).init(stream(seed, "meta-model"), device=device)
        return {name: p * self.filter_length if p.ndim == 4 else p for name, p in fresh.items()}


def most_common(values: Sequence[int]) -> int:
    """The value that stands there most often; of several, the largest."""
    counts = Counter(values)
    return max(counts, key=lambda value: (counts[value], value))
