"""The four-block convolutional network of the few-shot literature."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from dfml.nets.blocks import BatchNorm, norm


class ConvBlock(nn.Module):
    """3x3 convolution, BatchNorm, ReLU, 2x2 max-pooling."""

    def __init__(self, inputs: int, width: int, batch_norm: BatchNorm) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, width, 3, padding=1)
        self.norm = norm(width, batch_norm)
        self.pool = nn.MaxPool2d(2)

    def forward(self, x: Tensor) -> Tensor:
        # ReLU after pooling gives the same values as before it, at a quarter of the work.
        return torch.relu(self.pool(self.norm(self.conv(x))))


class Conv4(nn.Module):
    """Images (n, channels, size, size) -> logits (n, way)."""

    def __init__(self, way: int, *, widths: Sequence[int], size: int, channels: int, batch_norm: BatchNorm) -> None:
        super().__init__()
        inputs = (channels, *widths)
        self.blocks = nn.Sequential(*(ConvBlock(*pair, batch_norm) for pair in pairwise(inputs)))
        self.head = nn.Linear(widths[-1] * (size // 16) ** 2, way)

    def maps(self, x: Tensor) -> list[Tensor]:
        """What comes out of each block (n, width, h, w)."""
        out: list[Tensor] = []
        for block in self.blocks:
            out.append(block(out[-1] if out else x))
        return out

    def features(self, x: Tensor) -> Tensor:
        """The flattened maps (n, last width * (size // 16)**2) that the last layer reads."""
        return self.maps(x)[-1].flatten(1)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(x))
        return logits
