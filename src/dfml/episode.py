"""An N-way K-shot task: one definition for real data sets, for recovered images and for users."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from dfml.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class EpisodeSpec:
    """The shape of a task."""

    way: int = 5
    shot: int = 5
    query: int = 15
    """query images a class"""

    def __post_init__(self) -> None:
        for name, least in (("way", 2), ("shot", 1), ("query", 1)):
            if (value := getattr(self, name)) < least:
                raise ConfigError(f"an episode needs {name} >= {least}, got {value}")


class Episode(NamedTuple):
    """Images are float in [0, 1] and class-major: all of class 0, then all of class 1, ..."""

    support: Tensor  # (way * shot, c, h, w)
    support_labels: Tensor  # (way * shot,) 0 .. way - 1
    query: Tensor  # (way * query, c, h, w)
    query_labels: Tensor  # (way * query,)
    classes: tuple[str, ...]  # what the labels stand for

    def on(self, device: torch.device) -> "Episode":
        """The same on `device`."""
        return self._replace(
            support=self.support.to(device),
            support_labels=self.support_labels.to(device),
            query=self.query.to(device),
            query_labels=self.query_labels.to(device),
        )
