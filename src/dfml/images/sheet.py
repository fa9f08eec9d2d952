"""Many small images on one sheet, to look at."""

import math

import torch
from PIL import Image
from torch import Tensor

from dfml.errors import ConfigError


def contact_sheet(images: Tensor, columns: int = 16, *, zoom: int = 2, gap: int = 2) -> Image.Image:
    """uint8 images (n, 1 or 3, h, w), row by row on white, each pixel `zoom` times as large."""
    if images.dim() != 4 or images.dtype != torch.uint8 or images.shape[1] not in (1, 3) or len(images) == 0:
        raise ConfigError(
            f"a sheet takes one or more uint8 images (n, 1 or 3, h, w), not {images.dtype} {tuple(images.shape)}"
        )
    columns = min(columns, len(images))
    rows = math.ceil(len(images) / columns)
    large = images.expand(-1, 3, -1, -1).repeat_interleave(zoom, -2).repeat_interleave(zoom, -1)
    _, _, height, width = large.shape
    sheet = torch.full((3, rows * (height + gap) + gap, columns * (width + gap) + gap), 255, dtype=torch.uint8)
    for i, image in enumerate(large):
        top, left = gap + i // columns * (height + gap), gap + i % columns * (width + gap)
        sheet[:, top : top + height, left : left + width] = image
    return Image.fromarray(sheet.permute(1, 2, 0).contiguous().numpy())
