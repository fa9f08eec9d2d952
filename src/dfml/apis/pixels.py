"""Images as endpoints want them: in which order, in which units, as numbers or as files."""

import io
import struct
import zlib
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from dfml.apis.blackbox import ImageArray
from dfml.errors import ConfigError

Encoding = Literal["fp32", "uint8", "png", "jpeg"]
Images = Tensor | ImageArray
"""(n, c, h, w) in [0, 1], or of 0..255 where an API takes 8 bits a value"""
_SMALL = 4096  # bytes that are not compressed: that would save a packet or so, and take longer than all else of a file
_IN_CACHE = 1 << 17  # numbers, in four bytes each


@dataclass(frozen=True, kw_only=True)
class InputConfig:
    """What an API wants images to look like."""

    encoding: Encoding | None = None
    """fp32: numbers in [0, 1]; uint8: 0..255; png, jpeg: encoded files. Left out: png for huggingface, else fp32"""
    form: Literal["binary", "json", "row", "column", "raw", "base64", "data-url"] | None = None
    """inference_v2: binary or json (left out: binary where the server takes it); tf_serving: row (default) or column;
    huggingface: raw (default) or json; json: base64 (default) or data-url, of files"""
    name: str | None = None
    """the input tensor"""
    field: str = "image"
    """json: where in the request the image stands, such as image or payload.image; numbers are nested lists"""
    many: bool = False
    """json: whether the field holds a list of images; else one image goes in a request"""
    layout: Literal["nchw", "nhwc"] = "nchw"
    """channels before or after rows and columns; of no meaning for files"""
    order: Literal["rgb", "bgr"] = "rgb"
    """order of the channels; of no meaning for files"""
    mean: tuple[float, ...] | None = None
    """what the API wants subtracted from values in [0, 1], one number a channel"""
    std: tuple[float, ...] | None = None
    """what it wants them divided by, then"""
    quality: int = 95
    """of jpeg files"""

    def __post_init__(self) -> None:
        if (self.mean is not None or self.std is not None) and self.encoding not in (None, "fp32"):
            raise ConfigError(f"input.mean and input.std go with encoding fp32 only, not {self.encoding}")
        if self.std is not None and min(self.std, default=0) <= 0:
            raise ConfigError(f"input.std must be above 0, not {list(self.std)}")
        if not 1 <= self.quality <= 100:
            raise ConfigError(f"input.quality is a number from 1 to 100, not {self.quality}")

    @property
    def levels(self) -> int | None:
        """256 where images travel with 8 bits a value, None where floats arrive as they are."""
        return 256 if self.encoding in ("uint8", "png", "jpeg") else None

    def check(self, channels: int, where: str) -> None:
        """Refuse numbers that do not fit the image's channels."""
        for name, values in (("mean", self.mean), ("std", self.std)):
            if values is not None and len(values) != channels:
                raise ConfigError(
                    f"{where}: input.{name} takes {channels} numbers, one a channel, not {len(values)}; correct it"
                )


def as_array(images: Images) -> ImageArray:
    """The same images as NumPy knows them."""
    return images.cpu().numpy() if isinstance(images, Tensor) else images


def arranged(images: Images, config: InputConfig) -> ImageArray:
    """Images (n, c, h, w) in [0, 1] as one contiguous array, float32 or uint8, in the API's layout and units."""
    pixels = as_array(images)
    if config.order == "bgr":
        pixels = pixels[:, ::-1]
    if config.encoding == "uint8":
        pixels = eight_bit(pixels)
    elif config.mean is not None or config.std is not None:
        channels = pixels.shape[1]
        mean = np.array(config.mean or (0.0,) * channels, np.float32).reshape(1, -1, 1, 1)
        std = np.array(config.std or (1.0,) * channels, np.float32).reshape(1, -1, 1, 1)
        pixels = (pixels - mean) / std
    if config.layout == "nhwc":
        pixels = pixels.transpose(0, 2, 3, 1)
    return np.ascontiguousarray(pixels)


def digits(pixels: ImageArray) -> str:
    """A flat JSON list that gives back every float32 exactly, with no more digits than that takes."""
    if pixels.dtype == np.uint8:
        return "[" + ",".join(map(str, pixels.ravel().tolist())) + "]"
    # Of the many values of a batch few differ where images come from 8-bit ones.
    values, places = np.unique(pixels.astype(np.float32).ravel(), return_inverse=True)
    words = values.astype("U32").astype(object)
    return "[" + ",".join(words[places].tolist()) + "]"


def files(images: Images, config: InputConfig) -> list[bytes]:
    """Images (n, c, h, w) in [0, 1], c 1 or 3, as PNG or JPEG files."""
    pixels = eight_bit(as_array(images)).transpose(0, 2, 3, 1)
    if pixels.shape[3] not in (1, 3):
        raise ConfigError(f"an image file has 1 or 3 channels, not {pixels.shape[3]}; correct image or input.encoding")
    return [_file(one, config) for one in pixels]


def eight_bit(pixels: ImageArray) -> NDArray[np.uint8]:
    """Values in [0, 1] as the nearest of 0..255; what is that already stays as it is."""
    if pixels.dtype == np.uint8:
        return pixels
    levels = np.empty(pixels.shape, np.uint8)
    together = max(1, _IN_CACHE // max(1, pixels[:1].size))
    for at in range(0, len(pixels), together):  # all at once takes three times as long: it goes through main memory
        part = pixels[at : at + together] * np.float32(255)
        levels[at : at + together] = np.rint(part, out=part)
    return levels


def _file(pixels: NDArray[np.uint8], config: InputConfig) -> bytes:
    """One image (h, w, c) as a file."""
    if config.encoding == "jpeg":
        buffer = io.BytesIO()
        image = Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
        image.save(buffer, "JPEG", quality=config.quality, subsampling=0)
        return buffer.getvalue()
    return png(pixels)


def png(pixels: NDArray[np.uint8]) -> bytes:
    """An image (h, w, c) as a PNG file: its rows, each after a 0 for "no filter", in three chunks.

    Pillow takes ten times as long over a small image; most of it is not compression.
    """
    height, width, channels = pixels.shape
    rows = np.zeros((height, 1 + width * channels), np.uint8)
    rows[:, 1:] = pixels.reshape(height, -1)
    level = 0 if rows.size <= _SMALL else 1  # most of the saving at a fraction of the time
    return _start(width, height, channels) + _chunk(b"IDAT", zlib.compress(rows.tobytes(), level)) + _END


@cache
def _start(width: int, height: int, channels: int) -> bytes:
    """All of a PNG file that comes before its pixels."""
    header = struct.pack(">IIBBBBB", width, height, 8, 0 if channels == 1 else 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


_END = _chunk(b"IEND", b"")
