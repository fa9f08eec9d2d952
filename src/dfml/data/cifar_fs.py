"""CIFAR-FS (Bertinetto et al., 2019): the 100 classes of CIFAR-100, 600 images each, split 64/16/20."""

from pathlib import Path

from dfml.data.layout import PARTS, check_split, files_of_classes, locate, read_lines

LAYOUT = "DIR/data/<class>/*.png and DIR/splits/bertinetto/{train,val,test}.txt"


def find(root: Path, part: str) -> dict[str, list[Path]]:
    """The images of each class of `part`, in the order of its split file."""
    lists = [f"splits/bertinetto/{each}.txt" for each in PARTS]
    root = locate(root, "cifar-fs", ["data", *lists], ["cifar-fs", "cifar100"], LAYOUT)
    split = {each: read_lines(root / file, "cifar-fs") for each, file in zip(PARTS, lists, strict=True)}
    check_split("cifar-fs", split)
    return files_of_classes("cifar-fs", root / "data", split[part])
