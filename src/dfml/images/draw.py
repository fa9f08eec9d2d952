"""Random numbers for whole batches of images, alike within a kind where a kind is to be recognised."""

import torch
from torch import Generator, Tensor


class Draw:
    """Uniform numbers (count, width) for `count` images.

    Every `views` images in a row are of one kind and share their numbers, moved by up to `loose` / 2 from image
    to image. Rows marked in `free` (count, 1) share nothing after all.
    """

    def __init__(
        self, count: int, width: int, *, rng: Generator, views: int = 1, loose: float = 0.0, free: Tensor | None = None
    ) -> None:
        self.shape, self.rng, self.views, self.loose, self.free = (count, width), rng, views, loose, free

    def unit(self, *, loose: float = 0.0) -> Tensor:
        """Numbers in [0, 1]."""
        count, width = self.shape
        x = torch.rand(count // self.views, width, generator=self.rng)
        if self.views == 1:
            return x
        x = x.repeat_interleave(self.views, 0)
        if loose:
            x = (x + (torch.rand(self.shape, generator=self.rng) - 0.5) * loose).clamp_(0, 1)
        if self.free is not None:
            x = torch.where(self.free, torch.rand(self.shape, generator=self.rng), x)
        return x

    def __call__(self, low: float, high: float) -> Tensor:
        """Numbers between `low` and `high`."""
        return self.unit(loose=self.loose) * (high - low) + low

    def chance(self, share: float) -> Tensor:
        """1 with probability `share`, else 0; a kind has a part or has it not, so this is never loose."""
        return (self.unit() < share).float()
