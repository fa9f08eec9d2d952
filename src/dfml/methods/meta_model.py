"""The meta model's shape, where the user left it to the APIs."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dfml.apis.blackbox import ApiSpec
from dfml.errors import ConfigError
from dfml.nets import Arch, NetSpec
from dfml.nets.functional import Net, Params


@dataclass(frozen=True, kw_only=True)
class MetaModelConfig:
    """The network that is learned. Zeros follow the APIs."""

    arch: Arch = "conv4"
    width: int = 32
    """filters of the first layer"""
    way: int = 0
    """classes of the head; 0: as most APIs have"""
    size: int = 0
    """pixels of a side of its images; 0: as most APIs take"""
    channels: int = 0
    """0: as most APIs take"""

    def fitted(self, specs: Sequence[ApiSpec]) -> "MetaModelConfig":
        """With every zero replaced by what is most common among the APIs; ties go to the larger."""
        shapes = [spec.image for spec in specs]
        return replace(
            self,
            way=self.way or _most_common([spec.way for spec in specs]),
            size=self.size or _most_common([height for _, height, _ in shapes]),
            channels=self.channels or _most_common([channels for channels, _, _ in shapes]),
        )

    @property
    def spec(self) -> NetSpec:
        """The shape, once nothing is left open."""
        if 0 in (self.way, self.size, self.channels):
            raise ConfigError("the meta model's way, size and channels are still open; plan the run first")
        return NetSpec(arch=self.arch, width=self.width, way=self.way, size=self.size, channels=self.channels)


def head_for(net: Net, params: Params, way: int) -> tuple[Net, Params]:
    """The meta model, or for an API with another number of classes the same body under a fresh, empty head."""
    if way == net.spec.way:
        return net, params
    ours = params["head.weight"]
    head = {"head.weight": ours.new_zeros(way, ours.shape[1]), "head.bias": ours.new_zeros(way)}
    return Net(replace(net.spec, way=way), mixed=net.mixed), {**params, **head}


def _most_common(values: list[int]) -> int:
    counts = Counter(values)
    return max(counts, key=lambda value: (counts[value], value))
