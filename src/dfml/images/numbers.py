"""Random numbers for whole batches of images."""

import torch
from torch import Generator, Tensor


class UniformNumbers:
    """Uniform numbers (count, width) for `count` images."""

    def __init__(self, count: int, width: int, *, rng: Generator) -> None:
        self.shape, self.rng = (count, width), rng

    def unit(self) -> Tensor:
        """Numbers in [0, 1]."""
        return torch.rand(self.shape, generator=self.rng)

    def __call__(self, low: float, high: float) -> Tensor:
        """Numbers between `low` and `high`."""
        return self.unit() * (high - low) + low

    def chance(self, share: float) -> Tensor:
        """1 with probability `share`, else 0."""
        return (self.unit() < share).float()
