"""Supervised training of the classifier inside one API."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dfml.hardware import CPU, Hardware, autocast
from dfml.nets import Classifier, NetSpec
from dfml.rng import stream

BATCHES_PER_EPOCH = 18
"""Small data sets get smaller batches, not fewer updates: 10 epochs are 180 updates or more for any of them."""


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How one classifier is trained."""

    epochs: int = 10
    batch: int = 128
    """images an update at the most"""
    optimiser: Literal["adam", "sgd"] = "adam"
    lr: float = 0.01
    """the peak of a one-cycle schedule"""


def train(
    spec: NetSpec,
    images: Tensor,
    labels: Tensor,
    config: TrainConfig,
    *,
    seed: int,
    on_epoch: Callable[[int], None],
    hardware: Hardware = CPU,
) -> Classifier:
    """A network of shape `spec` fitted to normalised images (n, c, h, w) and labels (n,); in evaluation mode."""
    device = hardware.device
    net = spec.build(rng=stream(seed, "weights"))
    net.to(device, memory_format=spec.memory_format)  # type: ignore[call-overload]
    images, labels = images.to(device).contiguous(memory_format=spec.memory_format), labels.to(device)
    shuffle = stream(seed, "batches")
    batch = max(2, min(config.batch, len(images) // BATCHES_PER_EPOCH))
    optimiser: torch.optim.Optimizer
    if config.optimiser == "adam":
        optimiser = torch.optim.Adam(net.parameters(), lr=config.lr, fused=True)
    else:
        optimiser = torch.optim.SGD(net.parameters(), lr=config.lr, momentum=0.9, fused=True)
    updates = config.epochs * len(range(0, len(images) - 1, batch))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, config.lr, total_steps=max(updates, 1))
    net.train()
    for epoch in range(config.epochs):
        order = torch.randperm(len(images), generator=shuffle).to(device)
        for rows in order.split(batch):
            if len(rows) < 2:  # BatchNorm has no variance to divide by
                continue
            optimiser.zero_grad()
            with autocast(device, mixed=hardware.mixed):
                logits = net(images[rows])
            F.cross_entropy(logits.float(), labels[rows]).backward()
            optimiser.step()
            schedule.step()
        on_epoch(epoch + 1)
    net.eval().requires_grad_(False)
    return net


@torch.inference_mode()
def accuracy(net: nn.Module, images: Tensor, labels: Tensor) -> float:
    """The fraction of `images` that `net` gives its label."""
    device = next(net.parameters()).device
    parts = zip(images.to(device).split(256), labels.to(device).split(256), strict=True)
    hits = [(net(x).argmax(1) == y).sum() for x, y in parts]
    return int(torch.stack(hits).sum()) / len(images)
