"""Images that came out of an API, with all it said about them."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from dfml.files import load_tensors, save_tensors


class ClassKey(NamedTuple):
    """A class as one API knows it. Two APIs may use one name for different things."""

    api: str
    name: str


@dataclass(frozen=True)
class RecoveredSet:
    """What one recovery gives, whatever its strategy."""

    images: Tensor  # (n, c, h, w) float in [0, 1]
    targets: Tensor  # (n,) the class that was asked for
    probs: Tensor  # (n, k) what the API answers to exactly these images
    classes: tuple[ClassKey, ...]  # the k columns of `probs`
    queries: int  # images sent to the API for it

    @property
    def reached(self) -> float:
        """The fraction of images that the API gives their target class."""
        return (self.probs.argmax(1) == self.targets).float().mean().item()

    def on(self, device: torch.device | str) -> "RecoveredSet":
        """The same on `device`."""
        return replace(
            self, images=self.images.to(device), targets=self.targets.to(device), probs=self.probs.to(device)
        )

    def save(self, path: Path) -> None:
        """Keep the set in a file; its images as 8-bit ones."""
        images = (self.images * 255).round().clamp(0, 255).to(torch.uint8)
        tensors = {"images": images, "targets": self.targets, "probs": self.probs}
        about = {"classes": [list(key) for key in self.classes], "queries": self.queries}
        save_tensors(path, tensors, kind="recovered set", version=1, about=about)

    @classmethod
    def load(cls, path: Path) -> "RecoveredSet":
        """What `save` wrote."""
        tensors, about = load_tensors(path, kind="recovered set", version=1)
        classes = tuple(ClassKey(*key) for key in about["classes"])
        return cls(tensors["images"].float() / 255, tensors["targets"], tensors["probs"], classes, about["queries"])
