"""MiniImageNet with the split of Ravi and Larochelle (2017): 64/16/20 classes."""

import csv
from pathlib import Path

from dfml.data.layout import PARTS, check_split, locate, read_lines
from dfml.errors import DataError

LAYOUT = "DIR/images/*.jpg and DIR/{train,val,test}.csv with the columns filename,label"


def find(root: Path, part: str) -> dict[str, list[Path]]:
    """The images of each class of `part`; classes and images in the order of the CSV."""
    root = locate(root, "mini-imagenet", ["images", *(f"{each}.csv" for each in PARTS)], ["mini-imagenet"], LAYOUT)
    tables = {each: _read(root / f"{each}.csv") for each in PARTS}
    check_split("mini-imagenet", {each: list(table) for each, table in tables.items()})
    seen: set[str] = set()
    for file in (file for table in tables.values() for files in table.values() for file in files):
        if file in seen:
            raise DataError(f"mini-imagenet: the image {file} is listed twice; list it once")
        seen.add(file)
    present = {entry.name for entry in (root / "images").iterdir()}
    for label, files in tables[part].items():
        for file in files:
            if file not in present:
                raise DataError(
                    f"mini-imagenet: {part}.csv lists {file} of class {label!r} but it is not in {root / 'images'}; "
                    "unpack the data set again"
                )
    return {label: [root / "images" / file for file in files] for label, files in tables[part].items()}


def _read(path: Path) -> dict[str, list[str]]:
    """label -> file names of one CSV."""
    table: dict[str, list[str]] = {}
    for number, row in enumerate(csv.DictReader(read_lines(path, "mini-imagenet")), 2):
        file, label = row.get("filename"), row.get("label")
        if not file or not label:
            raise DataError(f"mini-imagenet: line {number} of {path} has no filename and label; expected {LAYOUT}")
        table.setdefault(label, []).append(file)
    return table
