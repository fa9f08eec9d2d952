"""Photographs as tensors; not a test itself."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image


def middle(path: Path) -> torch.Tensor:
    """The middle square of a photograph, (1, 3, h, w) in [0, 1]."""
    image = Image.open(path).convert("RGB")
    side = min(image.size)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    pixels = np.array(image.crop((left, top, left + side, top + side)))
    return torch.from_numpy(pixels).permute(2, 0, 1)[None].float() / 255
