"""Where images come from before they are decoded: files of a public download, or a drawing routine."""

import hashlib
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dfml.data.decode import Fit, decode
from dfml.errors import DataError

Pixels = NDArray[np.uint8]

_BATCH = 256  # images decoded between two writes: at 84x84 about 5 MB


class Source(Protocol):
    """What the cache needs to know of one part of a data set."""

    @property
    def name(self) -> str: ...
    @property
    def part(self) -> str: ...
    @property
    def classes(self) -> tuple[str, ...]: ...
    @property
    def counts(self) -> tuple[int, ...]:
        """Images a class, in the order of `classes`."""
        ...

    @property
    def shape(self) -> tuple[int, int, int]:
        """(channels, height, width) of every image."""
        ...

    @property
    def key(self) -> str:
        """Changes whenever the pixels may have changed; cheap to compute."""
        ...

    def batches(self) -> Iterator[Pixels]:
        """All images, class after class, as arrays (n, c, h, w)."""
        ...


@dataclass(frozen=True, kw_only=True)
class ImageFiles:
    """Image files by class."""

    name: str
    part: str
    files: dict[str, list[Path]]
    """class -> its images by absolute path, both in a fixed order"""
    size: int
    fit: Fit

    def __post_init__(self) -> None:
        if not self.files:
            raise DataError(f"{self.name}: the {self.part} part has no classes; add some to its split")
        for name, files in self.files.items():
            if not files:
                raise DataError(f"{self.name}: class {name!r} of {self.part} has no images; add some or drop the class")

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(self.files)

    @property
    def counts(self) -> tuple[int, ...]:
        return tuple(len(files) for files in self.files.values())

    @property
    def shape(self) -> tuple[int, int, int]:
        return (3, self.size, self.size)

    @cached_property
    def key(self) -> str:
        """Every path with its size and time of change: reads no image."""
        seen = []
        for name, files in self.files.items():
            for file in map(str, files):
                try:
                    stat = os.stat(file)
                except OSError as error:
                    raise DataError(
                        f"{self.name}: {file} belongs to class {name!r} but cannot be read ({error.strerror}); "
                        "unpack the data set again"
                    ) from error
                seen.append((name, file, stat.st_size, stat.st_mtime_ns))
        return fingerprint(self.name, self.part, self.size, self.fit, seen)

    def batches(self) -> Iterator[Pixels]:
        """Decoded on all cores (Pillow lets other threads run), a bounded number at a time."""
        files = [file for of_class in self.files.values() for file in of_class]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for start in range(0, len(files), _BATCH):
                batch = files[start : start + _BATCH]
                yield np.stack(list(pool.map(lambda file: decode(file, self.size, fit=self.fit), batch)))


def fingerprint(*facts: object) -> str:
    """Twenty hexadecimal digits that change with any of the facts."""
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:20]
