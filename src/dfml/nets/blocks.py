"""What all networks share: how BatchNorm behaves and how weights begin."""

import math
from typing import Literal

from torch import Generator, nn

BatchNorm = Literal["running", "batch"]
"""`running`: statistics are tracked in training and used in evaluation. `batch`: every batch is normalised by its own
statistics, also in evaluation, and nothing is tracked; this is what the paper's meta-test does (transductive)."""


def norm(width: int, batch_norm: BatchNorm) -> nn.BatchNorm2d:
    """The BatchNorm layer that behaves as `batch_norm` says."""
    return nn.BatchNorm2d(width, track_running_stats=batch_norm == "running")


def initialise(net: nn.Module, rng: Generator) -> None:
    """Start `net` as the few-shot literature does.

    Convolutions: normal with variance 2 / (k * k * outputs). BatchNorm: the identity.
    Linear: uniform within 1 / sqrt(inputs). Every bias: zero.
    """
    for layer in net.modules():
        if isinstance(layer, nn.Conv2d):
            fan_out = layer.kernel_size[0] * layer.kernel_size[1] * layer.out_channels
            nn.init.normal_(layer.weight, 0.0, math.sqrt(2.0 / fan_out), generator=rng)
        elif isinstance(layer, nn.Linear):
            bound = 1.0 / math.sqrt(layer.in_features)
            nn.init.uniform_(layer.weight, -bound, bound, generator=rng)
        elif isinstance(layer, nn.BatchNorm2d):
            nn.init.ones_(layer.weight)
        else:
            continue
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
