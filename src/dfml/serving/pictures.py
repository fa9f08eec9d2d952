"""Images as they travel: encoded files, 8-bit levels, floats; all become float32 (n, c, h, w) in [0, 1]."""

import base64
import binascii
import io
from collections.abc import Iterable

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from dfml.apis.blackbox import ApiSpec, fit_to
from dfml.serving.messages import HttpError

LARGEST_SIDE = 4096


def from_levels(levels: np.ndarray) -> Tensor:
    """uint8 (n, c, h, w) as floats: the same division as everywhere, so the same bits."""
    return torch.from_numpy(levels.astype(np.float32, order="C")) / 255


def decode(file: bytes, spec: ApiSpec) -> Tensor:
    """A PNG, a JPEG or whatever Pillow reads, as one image (1, c, h, w) of the API's size."""
    try:
        with Image.open(io.BytesIO(file)) as opened:
            if max(opened.size) > LARGEST_SIDE:
                raise HttpError(413, f"an image of {opened.size[0]}x{opened.size[1]} pixels is too large")
            pixels = np.asarray(opened.convert("L" if spec.image[0] == 1 else "RGB"))
    except HttpError:
        raise
    except Exception as error:  # fed with rubbish, a decoder may raise anything
        raise HttpError(400, f"not an image: {type(error).__name__}") from None
    pixels = pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
    return fit_to(from_levels(pixels[None]), spec.image)


def decode_all(files: Iterable[bytes], spec: ApiSpec) -> Tensor:
    """Encoded images as one batch."""
    return torch.cat([torch.zeros(0, *spec.image), *(decode(file, spec) for file in files)])


def from_base64(text: object) -> bytes:
    """What `text` stands for."""
    try:
        return base64.b64decode(text, validate=True)  # type: ignore[arg-type]
    except (TypeError, ValueError, binascii.Error):
        raise HttpError(400, "expected an image file in base64") from None
