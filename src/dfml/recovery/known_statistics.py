"""Inversion of a network that is known: images of a class that also look to BatchNorm as the training images did."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dfml.errors import ConfigError
from dfml.losses import target_nll
from dfml.nets.export import EndToEnd


@dataclass(frozen=True, kw_only=True)
class InversionLossConfig:
    """Weights of the terms beside the cross-entropy."""

    statistics: float = 0.01
    """distance of BatchNorm's mean and variance from those that the network remembers"""
    variation: float = 1e-4
    """norm of the differences between neighbouring pixels"""
    size: float = 1e-5
    """norm of the pixels, with grey as 0"""

    def __post_init__(self) -> None:
        for name in ("statistics", "variation", "size"):
            if (value := getattr(self, name)) < 0:
                raise ConfigError(f"the weight {name} of an inversion must be 0 or more, not {value}")


def inversion_losses(network: EndToEnd, images: Tensor, targets: Tensor, config: InversionLossConfig) -> Tensor:
    """What is wrong with `images` (n, c, h, w) in [0, 1] as images of the classes `targets` (n,); a scalar, with graph.

    mean_x -log A(x)_y + statistics * sum over layers (|mu - mu_known| + |var - var_known|) + the two norms
    """
    with _watched(network) as mismatches:
        probs: Tensor = network(images)
    neighbours = torch.cat([images.diff(dim=-1).flatten(), images.diff(dim=-2).flatten()])
    loss = target_nll(probs, targets).mean()
    for weight, term in (
        (config.statistics, sum(mismatches, start=probs.new_zeros(()))),
        (config.variation, neighbours.norm()),
        (config.size, (images - 0.5).norm()),
    ):
        loss = loss + weight * term
    return loss


@contextmanager
def _watched(network: EndToEnd) -> Iterator[list[Tensor]]:
    """While it lasts, every BatchNorm layer adds how far what it sees is from what it remembers."""
    mismatches: list[Tensor] = []

    def look(layer: nn.Module, arguments: tuple[Tensor, ...]) -> None:
        variance, mean = torch.var_mean(arguments[0], (0, 2, 3), correction=0)
        known_mean, known_variance = layer.get_buffer("running_mean"), layer.get_buffer("running_var")
        mismatches.append((mean - known_mean).norm() + (variance - known_variance).norm())

    layers = [layer for layer in network.modules() if isinstance(layer, nn.BatchNorm2d)]
    hooks = [layer.register_forward_pre_hook(look) for layer in layers]
    try:
        yield mismatches
    finally:
        for hook in hooks:
            hook.remove()
