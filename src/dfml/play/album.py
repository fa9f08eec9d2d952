"""The user's pictures: some in classes, which teach, others in none, which are judged."""

import itertools
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dfml.errors import ConfigError, shown
from dfml.play.pictures import Picture, read_picture

MOST_CLASSES = 200
MOST_PICTURES = 5000
NAME = 60
"""letters of a class's name"""


@dataclass(frozen=True)
class View:
    """An album at one moment, for another thread to look at."""

    version: int
    """changes with what the classes hold, not with their names, nor with pictures in none"""
    examples: Sequence[Picture]
    labels: Sequence[int]
    """the class of each example"""
    new: Sequence[Picture]
    names: Mapping[int, str]
    """of the classes"""

    @property
    def classes(self) -> list[int]:
        """Those that hold a picture."""
        return sorted(set(self.labels))

    @property
    def named_labels(self) -> list[str]:
        """The name of each example's class; two classes at least."""
        if len(self.classes) < 2:
            raise ConfigError("a classifier needs at least 2 classes with pictures; add some first")
        return [self.names[label] for label in self.labels]


def pixels(pictures: Sequence[Picture]) -> NDArray[np.uint8]:
    """Their pixels (n, c, side, side)."""
    return np.stack([picture.pixels for picture in pictures])


class Album:
    """Classes by number with their names, and pictures by number with the class that each lies in.

    Only one thread changes it or takes a view. Files live in `folder`, which vanishes with the album.
    """

    def __init__(self, shape: tuple[int, int, int], *, fixed: Sequence[str] = ()) -> None:
        self.shape = shape
        self.fixed = bool(fixed)
        """whether the classes are those of a finished classifier, to be tried and not taught"""
        self.classes: dict[int, str] = dict(enumerate(fixed))
        self.pictures: dict[int, Picture] = {}
        self.version = 0
        self._into: dict[int, int | None] = {}
        self._numbers = itertools.count(len(fixed))
        self._folder = tempfile.TemporaryDirectory(prefix="dfml-play-")

    @property
    def folder(self) -> Path:
        return Path(self._folder.name)

    def close(self) -> None:
        self._folder.cleanup()

    def view(self) -> View:
        examples = [p for p in self.pictures.values() if self._into[p.number] is not None]
        new = [p for p in self.pictures.values() if self._into[p.number] is None]
        labels = [self._into[p.number] or 0 for p in examples]
        return View(self.version, examples, labels, new, dict(self.classes))

    def class_of(self, picture: int) -> int | None:
        """The class that a picture lies in."""
        return self._into[picture]

    def next_number(self) -> int:
        """For a class or picture that is to be added."""
        return next(self._numbers)

    def read(self, number: int, name: str) -> Picture:
        """The picture in the file of that number in `folder`; any thread may read one."""
        return read_picture(self.folder / str(number), number=number, name=name, shape=self.shape)

    def add(self, picture: Picture, into: int | None) -> None:
        self._check_class(into)
        if len(self.pictures) >= MOST_PICTURES:
            raise ConfigError(f"{MOST_PICTURES:,} pictures are the most this page holds; remove some first")
        self.pictures[picture.number], self._into[picture.number] = picture, into
        self.version += into is not None

    def move(self, number: int, into: int | None) -> None:
        self._check_picture(number)
        self._check_class(into)
        if self._into[number] != into:
            self._into[number] = into
            self.version += 1

    def remove(self, number: int) -> None:
        self._check_picture(number)
        taught = self._into.pop(number) is not None
        self.pictures.pop(number).file.unlink(missing_ok=True)
        self.version += taught

    def add_class(self, name: str = "") -> int:
        self._check_open()
        if len(self.classes) >= MOST_CLASSES:
            raise ConfigError(f"{MOST_CLASSES} classes are the most this page holds; remove one first")
        taken = set(self.classes.values())
        free = next(f"class {n}" for n in itertools.count(1) if f"class {n}" not in taken)
        name = self._checked(name or free)
        number = self.next_number()
        self.classes[number] = name
        return number

    def rename(self, number: int, name: str) -> None:
        self._check_open()
        self._check_class(number)
        self.classes[number] = self._checked(name, but=number)

    def remove_class(self, number: int) -> None:
        """Its pictures stay, in no class."""
        self._check_open()
        self._check_class(number)
        for picture, into in self._into.items():
            if into == number:
                self._into[picture] = None
        del self.classes[number]
        self.version += 1

    def _checked(self, name: str, but: int | None = None) -> str:
        name = shown(name, NAME)
        if not name:
            raise ConfigError("a class needs a name; type one")
        if any(name == other for number, other in self.classes.items() if number != but):
            raise ConfigError(f"there is a class {name!r} already; choose another name")
        return name

    def _check_open(self) -> None:
        if self.fixed:
            raise ConfigError("this classifier came without its pictures, so its classes stay; play with a run instead")

    def _check_class(self, number: int | None) -> None:
        if number is not None:
            self._check_open()
            if number not in self.classes:
                raise ConfigError("this class is gone; load the page again")

    def _check_picture(self, number: int) -> None:
        if number not in self.pictures:
            raise ConfigError("this picture is gone; load the page again")
