"""ResNet10 and ResNet18 for small images: a 3x3 stem, no stem pooling, widths w, 2w, 4w, 8w."""

import torch
from torch import Tensor, nn

from dfml.nets.blocks import BatchNorm, norm


class BasicBlock(nn.Module):
    """Two 3x3 convolutions around a shortcut, which is a 1x1 convolution where the shape changes."""

    def __init__(self, inputs: int, width: int, stride: int, batch_norm: BatchNorm) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride=stride, padding=1, bias=False)
        self.norm1 = norm(width, batch_norm)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm2 = norm(width, batch_norm)
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != width:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, width, 1, stride=stride, bias=False), norm(width, batch_norm)
            )

    def forward(self, x: Tensor) -> Tensor:
        out = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(self.norm2(self.conv2(out)) + self.shortcut(x))


class ResNet(nn.Module):
    """Images (n, channels, s, s) -> logits (n, way), for any s: the last maps are averaged.

    `blocks` basic blocks in each of the four stages: 1 makes ResNet10, 2 makes ResNet18.
    """

    def __init__(self, way: int, *, blocks: int, width: int, channels: int, batch_norm: BatchNorm) -> None:
        super().__init__()
        self.stem = nn.Conv2d(channels, width, 3, padding=1, bias=False)
        self.stem_norm = norm(width, batch_norm)
        self.blocks = blocks
        stages: list[nn.Module] = []
        inputs = width
        for stage in range(4):
            outputs = width * 2**stage
            for block in range(blocks):
                stride = 2 if stage > 0 and block == 0 else 1
                stages.append(BasicBlock(inputs, outputs, stride, batch_norm))
                inputs = outputs
        self.stages = nn.Sequential(*stages)
        self.head = nn.Linear(inputs, way)

    def maps(self, x: Tensor) -> list[Tensor]:
        """What comes out of each stage (n, width, h, w)."""
        x, out = torch.relu(self.stem_norm(self.stem(x))), []
        for number, block in enumerate(self.stages, 1):
            x = block(x)
            if number % self.blocks == 0:
                out.append(x)
        return out

    def features(self, x: Tensor) -> Tensor:
        """The averaged maps (n, 8 * width) that the last layer reads."""
        return self.maps(x)[-1].mean((-2, -1))

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(x))
        return logits
