"""Decoding once: every part of every data set becomes one file of raw pixels in the user's cache folder."""

import json
import math
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import IO

import numpy as np

from dfml.data.image_set import ImageSet
from dfml.data.source import Source
from dfml.errors import DataError

OnDecoded = Callable[[int, int], None]
"""called with (images done, images in all) while a part is decoded"""

_UNFINISHED = ".part-"


def cache_folder() -> Path:
    """`$DFML_CACHE`, else `$XDG_CACHE_HOME/dfml`, else `~/.cache/dfml`; data folders may be read-only."""
    if chosen := os.environ.get("DFML_CACHE"):
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base).expanduser() if base else Path.home() / ".cache") / "dfml"


def cached(source: Source, *, on_progress: OnDecoded | None = None) -> ImageSet:
    """The images of `source`, decoded now unless the very same files were decoded before.

    `NAME.npy` holds the pixels and `NAME.json` says what they are. Each appears under its name in one step and the
    description last, so a crash or a second process at the same work leaves nothing half-written to be found.
    """
    stem = cache_folder() / f"{source.name}-{source.part}-{source.shape[-1]}-{source.key}"
    pixels, index = stem.with_name(stem.name + ".npy"), stem.with_name(stem.name + ".json")
    images = ImageSet(
        name=source.name,
        part=source.part,
        classes=source.classes,
        counts=source.counts,
        shape=source.shape,
        path=pixels,
    )
    description = {
        "name": images.name,
        "part": images.part,
        "shape": list(images.shape),
        "counts": dict(zip(images.classes, images.counts, strict=True)),
    }
    if _complete(index, description, pixels, images):
        with suppress(OSError):  # a cache may be read-only
            os.utime(index)  # `dfml cache prune` keeps what is used
    else:
        try:
            pixels.parent.mkdir(parents=True, exist_ok=True)
            _sweep(pixels.parent)
            _replace(pixels, lambda file: _write_pixels(file, _header(images), source, on_progress))
            _replace(index, lambda file: file.write(json.dumps(description, ensure_ascii=False, indent=1).encode()))
        except OSError as error:
            raise DataError(
                f"cannot write the decoded images to {pixels.parent} ({error.strerror or error}); "
                f"set DFML_CACHE to a folder with {_bytes(images) / 1e6:.0f} MB free"
            ) from error
    return images


def _complete(index: Path, description: object, pixels: Path, images: ImageSet) -> bool:
    """Whether the pair of files is there, describes these images and has not lost its tail."""
    try:
        told = json.loads(index.read_text(encoding="utf-8"))
        size = pixels.stat().st_size
    except (OSError, ValueError):
        return False
    return bool(told == description) and size == len(_header(images)) + _bytes(images)


def _bytes(images: ImageSet) -> int:
    """How many bytes the pixels take."""
    return sum(images.counts) * math.prod(images.shape)


def _header(images: ImageSet) -> bytes:
    """What a .npy file of these pixels begins with."""
    header = BytesIO()
    shape = (sum(images.counts), *images.shape)
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": shape})
    return header.getvalue()


def _write_pixels(file: IO[bytes], header: bytes, source: Source, on_progress: OnDecoded | None) -> None:
    """Stream batches behind a .npy header; never more than one batch in memory."""
    total, done = sum(source.counts), 0
    file.write(header)
    for batch in source.batches():
        file.write(np.ascontiguousarray(batch).data)
        done += len(batch)
        if on_progress is not None:
            on_progress(done, total)


def _sweep(folder: Path) -> None:
    """Remove what processes that were killed left behind, a day later."""
    for left in folder.glob(f"{_UNFINISHED}*"):
        with suppress(OSError):  # somebody else may be sweeping too
            if time.time() - left.stat().st_mtime > 86_400:
                left.unlink()


def _replace(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write a file of another name beside `path`, then rename it: a reader sees all of it or nothing."""
    handle, name = tempfile.mkstemp(prefix=_UNFINISHED, dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
