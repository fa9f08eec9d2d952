"""A user's images and labels, checked, as tensors."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dfml.errors import ConfigError

Pictures = Callable[[Tensor], Tensor]
"""rows (m,) of the images at hand -> these images, float (m, c, h, w) in [0, 1]"""


def as_tensor(images: Any) -> Tensor:
    """Images (n, c, h, w) or (n, h, w, c), uint8 or float in [0, 1], as a tensor (n, c, h, w) of the same values."""
    x = images if isinstance(images, Tensor) else torch.from_numpy(np.ascontiguousarray(images))
    if x.dim() != 4:
        raise ConfigError(f"expected images (n, c, h, w) or (n, h, w, c), got shape {tuple(x.shape)}")
    if x.shape[1] not in (1, 3) and x.shape[3] in (1, 3):
        x = x.permute(0, 3, 1, 2)
    if x.dtype != torch.uint8 and not bool(((x >= 0) & (x <= 1)).all()):
        raise ConfigError("images must be uint8, or float in [0, 1]; divide by 255 or clip them first")
    return x


def as_floats(x: Tensor) -> Tensor:
    """What `as_tensor` gave, in [0, 1]."""
    return x.float() / 255 if x.dtype == torch.uint8 else x.float()


def pictures_of(x: Tensor) -> Pictures:
    """What `as_tensor` gave, to be asked about: only the rows that are wanted become floats."""
    return lambda rows: as_floats(x[rows])


def support_set(images: Any, labels: Any) -> tuple[np.ndarray[Any, Any], Tensor, Tensor]:
    """The classes (way,) in order, images as a tensor (n, c, h, w), and for each the place of its class (n,)."""
    classes, places = np.unique(np.asarray(labels), return_inverse=True)
    if len(classes) < 2:
        raise ConfigError(f"a classifier needs at least 2 classes, got only {classes.tolist()}; add another")
    x, y = as_tensor(images), torch.from_numpy(places)
    if len(x) != len(y):
        raise ConfigError(f"got {len(x)} images but {len(y)} labels; pass one label an image")
    return classes, x, y
