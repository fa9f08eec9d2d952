"""A user's own images: a support set of one folder a class, or files to classify."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from dfml.data.decode import decode
from dfml.data.layout import class_folders, images_in
from dfml.errors import DataError


def read_support(folder: Path, *, size: int, channels: int) -> tuple[Tensor, list[str]]:
    """Images uint8 (n, channels, size, size) and the class name of each. Classes may differ in shots."""
    if not folder.is_dir():
        raise DataError(f"{folder} is no folder; expected one with a sub-folder of images for each class")
    names = class_folders(folder)
    if len(names) < 2:
        found = f"only the class {names[0]!r}" if names else "no class folders"
        raise DataError(f"{folder} holds {found}; expected a sub-folder of images for each of 2 or more classes")
    files, labels = list[Path](), list[str]()
    for name in names:
        images = images_in(folder / name)
        if not images:
            raise DataError(f"{folder / name} holds no images; add at least one of class {name!r} or remove the folder")
        files += images
        labels += [name] * len(images)
    return read_files(files, size=size, channels=channels), labels


def find_images(paths: Iterable[Path]) -> list[Path]:
    """Image files, and those directly in folders."""
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = images_in(path)
            if not inside:
                raise DataError(f"{path} holds no images; name image files or a folder of them")
            files += inside
        elif path.exists():
            files.append(path)
        else:
            raise DataError(f"{path} does not exist; name image files or a folder of them")
    return files


def read_files(files: Sequence[Path], *, size: int, channels: int) -> Tensor:
    """Image files as uint8 (n, channels, size, size)."""
    return torch.from_numpy(np.stack([decode(file, size, channels) for file in files]))
