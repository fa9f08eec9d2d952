"""CUB-200-2011 for few-shot learning: 100/50/50 classes, split by class order as Chen et al. (2019) do."""

from pathlib import Path

from dfml.data.layout import check_split, locate, read_lines
from dfml.errors import DataError

LAYOUT = "DIR/CUB_200_2011/images/<class>/*.jpg with images.txt, classes.txt and image_class_labels.txt"

_PART_OF_REST = ("train", "val", "train", "test")  # by (class number - 1) mod 4


def find(root: Path, part: str) -> dict[str, list[Path]]:
    """The images of each class of `part`, in the order of the download's own numbers."""
    marks = ["images", "images.txt", "classes.txt", "image_class_labels.txt"]
    root = locate(root, "cub", marks, ["CUB_200_2011", "cub", "cub/CUB_200_2011"], LAYOUT)
    classes, images, label_of = (_read(root / file) for file in (marks[2], marks[1], marks[3]))
    check_split("cub", {"classes.txt": list(classes.values())})
    wanted = {number: name for number, name in classes.items() if _PART_OF_REST[(number - 1) % 4] == part}
    files: dict[str, list[Path]] = {name: [] for name in wanted.values()}
    for number, file in images.items():
        label = label_of.get(number, "")
        if not label.isdecimal() or int(label) not in classes:
            raise DataError(f"cub: image {number} ({file}) has no class in classes.txt; take the lists as they come")
        if int(label) in wanted:
            files[wanted[int(label)]].append(root / "images" / file)
    for name in files:
        if not (root / "images" / name).is_dir():
            raise DataError(f"cub: classes.txt lists {name} but {root / 'images' / name} is missing; unpack it again")
    return files


def _read(path: Path) -> dict[int, str]:
    """number -> the rest of its line."""
    table: dict[int, str] = {}
    for line in read_lines(path, "cub"):
        number, _, rest = line.partition(" ")
        if not number.isdecimal() or not rest:
            raise DataError(f"cub: {path} has the line {line!r}; expected a number and a value on each")
        table[int(number)] = rest
    return table
