"""A user's own pictures without labels, wherever they lie in a folder."""

import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from dfml.data.decode import decode
from dfml.data.layout import images_in
from dfml.errors import DataError
from dfml.rng import stream

LARGEST = 256
"""pixels of a side; no API that is known takes more"""


def read_unlabelled(folder: Path, *, size: int, channels: int) -> Tensor:
    """All images in `folder` and its sub-folders as uint8 (n, channels, size, size), shuffled, always in the same way.

    Folders often are classes, and a budget may reach for the first pictures only. The pixels are in a file that
    vanishes with the process, not in memory: 4,000 pictures of 224 pixels are 600 MB.
    """
    if not folder.is_dir():
        raise DataError(f"{folder} is no folder; expected one with images in it, or in its sub-folders")
    folders = [folder, *sorted(p for p in folder.rglob("*") if p.is_dir() and not _hidden(p.relative_to(folder)))]
    files = [file for place in folders for file in images_in(place)]
    if not files:
        raise DataError(f"{folder} holds no images, nor do its sub-folders; name a folder that does")
    shape = (len(files), channels, size, size)
    with tempfile.TemporaryFile() as file:
        pixels = np.memmap(file, np.uint8, "w+", shape=shape)
    for row, index in enumerate(torch.randperm(len(files), generator=stream(0, "unlabelled")).tolist()):
        pixels[row] = decode(files[index], size, channels)
    return torch.from_numpy(pixels)


def _hidden(path: Path) -> bool:
    return any(part.startswith((".", "__")) for part in path.parts)
