"""The same picture again, a little different: mirrored, moved, in another light."""

import torch
import torch.nn.functional as F
from torch import Generator, Tensor


def augment(images: Tensor, *, jitter: float, shift: int, rng: Generator) -> Tensor:
    """Images (n, c, h, w) in [0, 1], each mirrored or not, moved by up to `shift` pixels of 32, recoloured."""
    n, channels, height, width = images.shape

    def draw(planes: int) -> Tensor:
        return ((torch.rand(n, planes, 1, 1, generator=rng) * 2 - 1) * jitter).to(images.device)

    mirrored = (torch.rand(n, 1, 1, 1, generator=rng) < 0.5).to(images.device)
    images = torch.where(mirrored, images.flip(-1), images)
    if shift:
        reach = max(1, round(shift * height / 32))
        moved = []
        for part in F.pad(images, (reach,) * 4, mode="reflect").split(16):  # a slice moves together: no gather
            y, x = torch.randint(2 * reach + 1, (2,), generator=rng).tolist()
            moved.append(part[..., y : y + height, x : x + width])
        images = torch.cat(moved)
    if jitter:
        images = (images - 0.5) * (1 + draw(1)) + 0.5 + draw(1) / 2 + draw(channels) / 4
    return images.clamp(0, 1)
