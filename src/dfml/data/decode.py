"""Reading one image file right, whatever a camera, a scanner or a painter put into it."""

from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from dfml.errors import DataError

Fit = Literal["crop", "stretch"]


def decode(path: Path, size: int, channels: int = 3, *, fit: Fit = "crop") -> NDArray[np.uint8]:
    """The image as uint8 (channels, size, size).

    `crop` takes the largest centred square, `stretch` the whole image; either is then resampled with anti-aliasing.
    Grey becomes colour, transparency becomes white, rotation flags are obeyed, 16 bits are scaled to 8.
    """
    try:
        with Image.open(path) as opened:
            image = _eight_bit(_upright(opened))
            image = _on_white(image).convert("RGB" if channels == 3 else "L")
    except Exception as error:  # fed with rubbish, a decoder may raise anything
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error) or type(error).__name__
        raise DataError(f"{path} cannot be read as an image ({_one_line(reason)}); replace or remove it") from error
    pixels = np.asarray(_resized(image, size, fit))
    return np.ascontiguousarray(pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1))


def _upright(image: Image.Image) -> Image.Image:
    """Turned as its EXIF orientation says; as stored where the EXIF data themselves are broken."""
    image.load()
    try:
        return ImageOps.exif_transpose(image)
    except Exception:  # EXIF is parsed lazily and not trusted; the pixels above are sound
        return image


def _eight_bit(image: Image.Image) -> Image.Image:
    """Deep greys scaled to 0..255; Pillow itself would clip them."""
    if image.mode.startswith("I;16"):
        values, white = np.asarray(image).astype(np.float64), 65535.0
    elif image.mode == "I":  # 16 bits in a wider box, or truly 32
        values = np.asarray(image).astype(np.float64)
        white = 65535.0 if values.max() <= 65535 else 2.0**31 - 1
    elif image.mode == "F":
        values = np.asarray(image).astype(np.float64)
        if not (np.isfinite(values).all() and values.min() >= 0 and values.max() <= 255):
            raise ValueError(f"floating-point values from {values.min():g} to {values.max():g}, expected 0 to 1 or 255")
        white = 1.0 if values.max() <= 1 else 255.0
    else:
        return image
    return Image.fromarray((values / white * 255).round().clip(0, 255).astype(np.uint8))


def _on_white(image: Image.Image) -> Image.Image:
    """What shows when the image lies on white paper."""
    if not image.has_transparency_data:
        return image
    image = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)


def _resized(image: Image.Image, size: int, fit: Fit) -> Image.Image:
    if image.size == (size, size):
        return image
    width, height = image.size
    side_x, side_y = (min(image.size),) * 2 if fit == "crop" else image.size
    left, top = (width - side_x) / 2, (height - side_y) / 2
    box = (left, top, left + side_x, top + side_y)
    return image.resize((size, size), Image.Resampling.BILINEAR, box=box)


def _one_line(text: str) -> str:
    return " ".join(text.split())
