"""Tiny data sets in the layouts of their public downloads, and a cache that no other test sees."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "the cache"
    monkeypatch.setenv("DFML_CACHE", str(folder))
    return folder


def shade(class_number: int, image_number: int) -> int:
    """The grey of an image, from which a test can tell which one it is looking at."""
    return 10 * class_number + image_number


def _save(path: Path, grey: int, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((size, size, 3), grey, dtype=np.uint8)).save(path)


@pytest.fixture
def cifar_fs(tmp_path: Path) -> Path:
    """Classes c0..c2 in train, c3 in val, c4 in test; 3 images each."""
    root = tmp_path / "cifar-fs"
    lists = root / "splits" / "bertinetto"
    lists.mkdir(parents=True)
    for part, names in {"train": "c2 c0 c1", "val": "c3", "test": "c4"}.items():
        (lists / f"{part}.txt").write_text(names.replace(" ", "\n") + "\n")
    for c in range(5):
        for n in range(3):
            _save(root / "data" / f"c{c}" / f"{n}.png", shade(c, n), 32)
    return root


@pytest.fixture
def mini_imagenet(tmp_path: Path) -> Path:
    """Classes n0, n1 in train, n2 in val, n3 in test; 2 images each, of another shape than 84x84."""
    root = tmp_path / "mini-imagenet"
    rows: dict[str, list[str]] = {"train": [], "val": [], "test": []}
    for c, part in enumerate(("train", "train", "val", "test")):
        for n in range(2):
            _save(root / "images" / f"n{c}_{n}.png", shade(c, n), 100)
            rows[part].append(f"n{c}_{n}.png,n{c}")
    for part, lines in rows.items():
        (root / f"{part}.csv").write_text("\n".join(["filename,label", *lines]) + "\n")
    return root


@pytest.fixture
def cub(tmp_path: Path) -> Path:
    """Eight classes of 2 images."""
    root = tmp_path / "cub" / "CUB_200_2011"
    classes, images, labels = [], [], []
    for c in range(8):
        name = f"{c + 1:03d}.Bird_{c}"
        classes.append(f"{c + 1} {name}")
        for n in range(2):
            _save(root / "images" / name / f"Bird_{c}_{n}.png", shade(c, n), 84)
            images.append(f"{len(images) + 1} {name}/Bird_{c}_{n}.png")
            labels.append(f"{len(images)} {c + 1}")
    for file, lines in {"classes": classes, "images": images, "image_class_labels": labels}.items():
        (root / f"{file}.txt").write_text("\n".join(lines) + "\n")
    return root.parent


@pytest.fixture
def make_folder(tmp_path: Path) -> Callable[..., Path]:
    def make(classes: int = 10, images: int = 2, split: dict[str, list[str]] | None = None) -> Path:
        root = tmp_path / "folder"
        for c in range(classes):
            for n in range(images):
                _save(root / f"k{c}" / f"{n}.png", shade(c, n), 84)
        if split is not None:
            (root / "split.json").write_text(json.dumps(split))
        return root

    return make
