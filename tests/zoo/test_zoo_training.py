"""Training of a zoo's classifiers, where a crash would take the whole process with it."""

import torch

from dfml.engine.pool import Finished, side_by_side
from dfml.nets import NetSpec
from dfml.rng import stream
from dfml.zoo.training import TrainConfig, train


def updates(width, report):
    images = torch.randn(64, 3, 84, 84, generator=stream(0, "images"))
    config = TrainConfig(epochs=1, batch=32, optimiser="sgd")
    net = train(
        NetSpec(arch="resnet10", width=width, size=84), images, torch.arange(64) % 5, config, seed=0, on_epoch=report
    )
    return all(bool(p.isfinite().all()) for p in net.parameters())


def test_a_narrow_resnet_on_large_images_survives():
    """8 filters on 84 x 84: what overran its memory in channels-last order."""
    (finite,) = [event.result for event in side_by_side(updates, [8], workers=1) if isinstance(event, Finished)]
    assert finite
