"""Anybody's images: one folder a class, split by a file or by seeded fractions of the classes."""

import json
from pathlib import Path

import torch

from dfml.data.layout import PARTS, check_split, class_folders, files_of_classes
from dfml.errors import DataError
from dfml.rng import stream

LAYOUT = 'DIR/<class>/<images>, optionally with DIR/split.json {"train": [...], "val": [...], "test": [...]}'


def find(root: Path, part: str, *, seed: int = 0) -> dict[str, list[Path]]:
    """The images of each class of `part`."""
    if not root.is_dir():
        raise DataError(f"folder: the data folder {root} does not exist; expected {LAYOUT}")
    root = root.resolve()
    file = root / "split.json"
    split = _read(file) if file.is_file() else by_fractions(class_folders(root), root, seed=seed)
    check_split("folder", split)
    return files_of_classes("folder", root, split[part])


def by_fractions(classes: list[str], root: Path, *, seed: int) -> dict[str, list[str]]:
    """64 % of the classes for train, 16 % for val, the rest for test, at least one each; chosen by `seed`."""
    if len(classes) < 3:
        raise DataError(
            f"folder: {root} has {len(classes)} class folders but train, val and test need 3 or more; expected {LAYOUT}"
        )
    count = len(classes)
    val = max(1, round(0.16 * count))
    train = min(max(1, round(0.64 * count)), count - val - 1)
    order = torch.randperm(count, generator=stream(seed, "folder split")).tolist()
    shuffled = [classes[i] for i in order]
    cut = {"train": shuffled[:train], "val": shuffled[train : train + val], "test": shuffled[train + val :]}
    return {part: sorted(names) for part, names in cut.items()}


def _read(file: Path) -> dict[str, list[str]]:
    try:
        split = json.loads(file.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise DataError(f"folder: {file} cannot be read as JSON ({error}); expected {LAYOUT}") from error
    for part in PARTS:
        names = split.get(part) if isinstance(split, dict) else None
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise DataError(f"folder: {file} has no list of class names under {part!r}; expected {LAYOUT}")
    return {part: split[part] for part in PARTS}
