"""Pictures of the user's own, which arrive as an argument: what learns never reads a file of images."""

import hashlib
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dfml.errors import ConfigError


def own_pictures(images: Any) -> Tensor:
    """Whatever holds 8-bit pictures (n, c, h, w) or (n, h, w, c), as a tensor (n, c, h, w) without a copy."""
    x = images if isinstance(images, Tensor) else torch.from_numpy(np.asarray(images))
    if x.dim() != 4 or not len(x):
        raise ConfigError(f"expected pictures (n, c, h, w) or (n, h, w, c), at least one, got shape {tuple(x.shape)}")
    if x.dtype != torch.uint8:
        raise ConfigError(f"expected 8-bit pictures, got {x.dtype}; multiply those in [0, 1] by 255 and round them")
    if x.shape[1] not in (1, 3) and x.shape[3] in (1, 3):
        x = x.permute(0, 3, 1, 2)
    if x.shape[1] not in (1, 3):
        raise ConfigError(f"pictures have 1 channel (grey) or 3 (colour), not {x.shape[1]}; convert them first")
    return x


def digest(pictures: Tensor) -> str:
    """The same for the same pictures in the same order, and for no others."""
    told = hashlib.sha256(str(tuple(pictures.shape)).encode())
    for part in pictures.split(64):
        told.update(part.contiguous().numpy().tobytes())
    return told.hexdigest()[:16]
