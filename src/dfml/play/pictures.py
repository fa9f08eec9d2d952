"""One picture from a stranger's file: looked at before it is decoded, and shown only as we have drawn it."""

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from dfml.data.decode import decode
from dfml.errors import DataError, shown

LARGEST_FILE = 32 << 20
"""bytes; a telephone's picture has five to fifteen million"""
MOST_PIXELS = 64_000_000
"""decoded, these are 200 MB"""
FORMATS = {
    "JPEG": ".jpg",
    "MPO": ".jpg",  # how telephones write several JPEGs into one file
    "PNG": ".png",
    "WEBP": ".webp",
    "GIF": ".gif",
    "BMP": ".bmp",
    "AVIF": ".avif",
}
"""what browsers show, and how the names of such files end"""
THUMBNAIL = 192
"""pixels of a side"""
NAME = 80
"""letters of a file's name that are kept"""


@dataclass(frozen=True)
class Picture:
    """A picture as the classifier sees it, and as the page shows it."""

    number: int
    name: str
    file: Path
    suffix: str  # how the file's name should end
    pixels: NDArray[np.uint8]  # (c, side, side)
    thumbnail: bytes  # WebP
    thumbnail_side: int


def read_picture(file: Path, *, number: int, name: str, shape: tuple[int, int, int]) -> Picture:
    """The picture in `file` for images of `shape` (c, side, side), or one sentence on why it cannot be taken."""
    name = shown(name, NAME) or "picture"
    width, height, suffix = _header(file, name)
    side = min(THUMBNAIL, width, height)
    try:
        pixels = decode(file, shape[1], shape[0])
        small = decode(file, side)
    except DataError as error:
        raise DataError(str(error).replace(str(file), name)) from None
    drawn = io.BytesIO()
    Image.fromarray(small.transpose(1, 2, 0)).save(drawn, "WEBP", quality=85)
    return Picture(number, name, file, suffix, pixels, drawn.getvalue(), side)


def too_large(name: str) -> DataError:
    """What to say of a file with more bytes than `LARGEST_FILE`."""
    return DataError(f"{shown(name, NAME)} has more than {LARGEST_FILE >> 20} MB; make it smaller first")


def _header(file: Path, name: str) -> tuple[int, int, str]:
    """Width, height and suffix, from the first bytes alone: what would not fit into memory is never decoded."""
    if file.stat().st_size > LARGEST_FILE:
        raise too_large(name)
    Image.init()
    known = [name for name in FORMATS if name in Image.OPEN]  # builds of Pillow differ; MPO comes by way of JPEG
    try:
        with Image.open(file, formats=known) as opened:
            (width, height), suffix = opened.size, FORMATS[opened.format or ""]
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise DataError(f"{name} has far more than {MOST_PIXELS:,} pixels; make it smaller first") from None
    except Exception:  # fed with rubbish, a decoder may raise anything
        raise DataError(
            f"{name} cannot be read as a picture; JPEG, PNG, WebP, GIF, BMP and AVIF are known, convert others first"
        ) from None
    if width * height > MOST_PIXELS:
        raise DataError(f"{name} has {width:,} x {height:,} pixels, and {MOST_PIXELS:,} are the most; make it smaller")
    return width, height, suffix
