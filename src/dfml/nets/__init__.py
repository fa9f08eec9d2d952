"""The networks inside APIs and meta models, made from a description that fits into a file."""

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Generator

from dfml.errors import ConfigError
from dfml.nets.blocks import BatchNorm, initialise
from dfml.nets.conv4 import Conv4
from dfml.nets.resnet import ResNet

Arch = Literal["conv4", "conv4-growing", "resnet10", "resnet18"]
"""`conv4-growing` doubles its filters from block to block, as the maps shrink: more features for the same work"""
Classifier = Conv4 | ResNet

_USUAL_WIDTH = {"conv4": 32, "conv4-growing": 32, "resnet10": 64, "resnet18": 64}


@dataclass(frozen=True, kw_only=True)
class NetSpec:
    """Everything that decides the shape of a network's parameters."""

    arch: Arch = "conv4"
    way: int = 5
    size: int = 32
    channels: int = 3
    width: int = 0
    """filters of the first layer; 0 takes the paper's 32 for Conv4 and 64 for ResNets"""

    def __post_init__(self) -> None:
        if self.arch not in get_args(Arch):
            raise ConfigError(f"unknown architecture {self.arch!r}; choose one of {', '.join(get_args(Arch))}")
        if self.size < 16:
            raise ConfigError(f"images of {self.size}x{self.size} are too small; the networks halve 16 or more pixels")
        if self.width == 0:
            object.__setattr__(self, "width", _USUAL_WIDTH[self.arch])

    @property
    def widths(self) -> tuple[int, ...]:
        """Filters of the four blocks of a Conv4, or of the four stages of a ResNet."""
        grows = self.arch != "conv4"
        return tuple(self.width * 2**stage if grows else self.width for stage in range(4))

    @property
    def residual(self) -> bool:
        """Whether it is a ResNet."""
        return self.arch.startswith("resnet")

    @property
    def memory_format(self) -> torch.memory_format:
        """How maps lie in memory while a network of this shape is trained: what is fastest and does not crash.

        Channels last: pooling is vectorised over channels, and an update takes two thirds of the time. But the backward
        pass of a ResNet's shortcuts, 1 x 1 convolutions of stride 2, then overruns its memory in oneDNN (PyTorch 2.13)
        where there are fewer than 16 channels, as 8 filters on 84 x 84 pixels show.
        """
        narrow = self.residual and self.width % 16
        return torch.contiguous_format if narrow else torch.channels_last

    def build(self, *, rng: Generator, batch_norm: BatchNorm = "running") -> Classifier:
        """A freshly initialised network of this shape."""
        net = self.outline(batch_norm=batch_norm)
        initialise(net, rng)
        return net

    def outline(self, *, batch_norm: BatchNorm = "running") -> Classifier:
        """A network of this shape with whatever weights torch gives it, for weights to be loaded into."""
        if not self.residual:
            return Conv4(self.way, widths=self.widths, size=self.size, channels=self.channels, batch_norm=batch_norm)
        blocks = 1 if self.arch == "resnet10" else 2
        return ResNet(self.way, blocks=blocks, width=self.width, channels=self.channels, batch_norm=batch_norm)


__all__ = ["Arch", "BatchNorm", "Classifier", "NetSpec"]
