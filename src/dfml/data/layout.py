"""What all folder layouts share: finding the folder, telling images from strays, and checking a split."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from dfml.errors import DataError

PARTS = ("train", "val", "test")

SUFFIXES = frozenset(
    {".bmp", ".gif", ".jp2", ".jpeg", ".jpg", ".pbm", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".tga", ".webp", ".avif"}
)


def locate(root: Path, name: str, marks: Sequence[str], inside: Sequence[str], layout: str) -> Path:
    """The folder that holds everything in `marks`: `root` itself or one of the folders `inside` it."""
    if not root.is_dir():
        raise DataError(f"{name}: the data folder {root} does not exist; expected {layout}")
    folders = [root, *(root / inner for inner in inside)]
    missing = [[mark for mark in marks if not (folder / mark).exists()] for folder in folders]
    best = min(range(len(folders)), key=lambda i: len(missing[i]))
    if missing[best]:
        raise DataError(f"{name}: {folders[best]} has no {missing[best][0]}; expected {layout}")
    return folders[best].resolve()


def images_in(folder: Path) -> list[Path]:
    """The image files directly in `folder`, by name; hidden files and anything that is no image are passed over."""
    with os.scandir(folder) as entries:  # tells files from folders without a look at each, unlike Path
        names = sorted(
            entry.name
            for entry in entries
            if not entry.name.startswith(".")
            and os.path.splitext(entry.name)[1].lower() in SUFFIXES
            and entry.is_file()
        )
    return [folder / name for name in names]


def class_folders(root: Path) -> list[str]:
    """The names of the folders in `root`, sorted, without hidden ones and what macOS adds to archives."""
    return sorted(entry.name for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith((".", "__")))


def check_split(name: str, split: Mapping[str, Sequence[str]]) -> None:
    """Refuse a class that stands twice, be it in two parts or in one."""
    part_of: dict[str, str] = {}
    for part, classes in split.items():
        for of_class in classes:
            if of_class in part_of:
                where = f"both {part_of[of_class]} and {part}" if part_of[of_class] != part else f"{part} twice"
                raise DataError(f"{name}: class {of_class!r} is in {where}; list it once")
            part_of[of_class] = part


def files_of_classes(name: str, folder: Path, classes: Sequence[str]) -> dict[str, list[Path]]:
    """The images of each class, from the folder of its name."""
    for of_class in classes:
        if not (folder / of_class).is_dir():
            raise DataError(
                f"{name}: the split lists class {of_class!r} but {folder / of_class} does not exist; "
                "add the folder or take the class out of the split"
            )
    return {of_class: images_in(folder / of_class) for of_class in classes}


def read_lines(path: Path, name: str) -> list[str]:
    """The non-empty lines of a text file that belongs to a data set."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise DataError(f"{name}: cannot read {path} ({reason}); take it from the download again") from error
    return [line.strip() for line in text.splitlines() if line.strip()]
