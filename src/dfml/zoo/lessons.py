"""What an API of a zoo is trained on: the images of a few train classes, small enough to travel to another machine."""

from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from dfml.data import ImageSet, channel_statistics
from dfml.errors import ConfigError

HELD_OUT = 0.2
"""the part of a class's images that measures the reported accuracy: 120 of 600"""


class Lesson(NamedTuple):
    """The images of some classes."""

    classes: tuple[str, ...]
    pixels: tuple[NDArray[np.uint8], ...]
    """(n, c, h, w) of each class"""
    mean: tuple[float, ...]
    std: tuple[float, ...]
    """of all train classes, channel by channel"""

    @property
    def shape(self) -> tuple[int, int, int]:
        """(channels, height, width) of an image."""
        channels, height, width = self.pixels[0].shape[1:]
        return channels, height, width

    def split(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Train images, normalised, and labels, then held-out ones."""
        mean, std = (torch.tensor(values).view(1, -1, 1, 1) for values in (self.mean, self.std))
        images = [(torch.tensor(pixels).float() / 255 - mean) / std for pixels in self.pixels]
        kept = [split_class(of_class, name) for of_class, name in zip(images, self.classes, strict=True)]
        return *_gather([train for train, _ in kept]), *_gather([test for _, test in kept])


def draw_lesson(part: ImageSet, *, way: int, limit: int | None, rng: Generator) -> Lesson:
    """`way` random classes of `part`, with at most `limit` images each."""
    chosen = torch.randperm(len(part.classes), generator=rng)[:way].tolist()
    pixels = tuple(np.array(part.images(c)[:limit]) for c in chosen)
    return Lesson(tuple(part.classes[c] for c in chosen), pixels, *_statistics(part))


def split_class(images: Tensor, name: str) -> tuple[Tensor, Tensor]:
    """Of all images of a class those that an API is trained on, and those held out: the last fifth."""
    held_out = max(1, round(len(images) * HELD_OUT))
    if len(images) - held_out < 2:
        raise ConfigError(f"class {name} has {len(images)} images, too few to train on")
    return images[:-held_out], images[-held_out:]


_statistics = cache(channel_statistics)  # the same for all lessons on one data set


def _gather(groups: list[Tensor]) -> tuple[Tensor, Tensor]:
    labels = torch.cat([torch.full((len(group),), label) for label, group in enumerate(groups)])
    return torch.cat(groups), labels
