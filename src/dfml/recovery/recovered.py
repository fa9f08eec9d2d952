"""Images that came out of an API, with all it said about them."""

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor


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
