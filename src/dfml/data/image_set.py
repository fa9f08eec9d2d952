"""The images of one part of one data set, class by class, without holding them in memory."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class ImageSet:
    """A handle that is cheap to make, to copy and to send to another process: pixels stay in the file at `path`."""

    name: str
    part: str
    classes: tuple[str, ...]
    counts: tuple[int, ...]
    """images a class"""
    shape: tuple[int, int, int]
    """(channels, height, width)"""
    path: Path
    """uint8 (sum of counts, c, h, w), class after class, as .npy"""

    def images(self, class_index: int) -> NDArray[np.uint8]:
        """All images (n, c, h, w) of one class: a view of the file, of which only what is read enters memory."""
        class_index = range(len(self.classes))[class_index]  # refuses what a slice would let pass
        start = sum(self.counts[:class_index])
        # Mapped anew each time, so pages are given back as soon as the caller drops the view.
        pixels: NDArray[np.uint8] = np.load(self.path, mmap_mode="r")
        return pixels[start : start + self.counts[class_index]]

    def tensor(self, class_index: int, indices: Sequence[int] | Tensor | None = None) -> Tensor:
        """The images of one class, or those at `indices`, as float32 (n, c, h, w) in [0, 1]."""
        chosen = self.images(class_index)
        pixels = np.array(chosen if indices is None else chosen[np.asarray(indices, dtype=np.int64)])
        return torch.from_numpy(pixels).to(torch.float32).div_(255)


def channel_statistics(images: ImageSet, *, sample: int = 4096) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel in [0, 1], over about `sample` images spread evenly over the set."""
    total = sum(images.counts)
    step = max(1, total // sample)
    pixels: NDArray[np.uint8] = np.load(images.path, mmap_mode="r")
    # Pixels have 256 values, so a histogram a channel holds all there is to know, exactly and in bounded memory.
    histogram = np.zeros((images.shape[0], 256), dtype=np.int64)
    for start in range(0, total, 256 * step):
        piece = pixels[start : start + 256 * step : step]
        for channel, counts in enumerate(histogram):
            counts += np.bincount(piece[:, channel].ravel(), minlength=256)
    share = histogram / histogram.sum(1, keepdims=True)
    values = np.arange(256) / 255
    mean = share @ values
    std = np.sqrt((share * (values - mean[:, None]) ** 2).sum(1))
    return tuple(mean.tolist()), tuple(std.tolist())
