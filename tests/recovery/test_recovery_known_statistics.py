"""The loss by which a known network is inverted: each term where its value is known."""

import pytest
import torch

from dfml.errors import ConfigError
from dfml.nets import NetSpec
from dfml.nets.export import EndToEnd
from dfml.recovery.known_statistics import InversionLossConfig, inversion_losses
from dfml.rng import stream

NOTHING = {"statistics": 0.0, "variation": 0.0, "size": 0.0}
TARGETS = torch.tensor([0, 1, 2, 0])


@pytest.fixture
def network():
    net = NetSpec(way=3, size=16, width=4).build(rng=stream(3))
    return EndToEnd(net, 3, None, None, name="known")


@pytest.fixture
def images(rng):
    return torch.rand(4, 3, 16, 16, generator=rng)


def loss(network, images, **weights):
    return inversion_losses(network, images, TARGETS, InversionLossConfig(**NOTHING | weights)).item()


def test_alone_it_is_the_cross_entropy(network, images):
    expected = torch.nn.functional.nll_loss(network(images).log(), TARGETS).item()
    assert loss(network, images) == pytest.approx(expected, rel=1e-5)


def test_statistics_cost_nothing_on_what_the_network_remembers(network, images):
    """BatchNorm is made to remember exactly these images, layer after layer."""
    layers = [layer for layer in network.modules() if isinstance(layer, torch.nn.BatchNorm2d)]
    before = loss(network, images, statistics=1.0) - loss(network, images)
    for layer in layers:
        layer.train()
        layer.momentum = 1.0
    network(images)
    for layer in layers:
        layer.eval()
    network_sees = loss(network, images, statistics=1.0) - loss(network, images)
    assert before > 1
    assert network_sees < 0.05 * before, "but for the unbiased variance, which training keeps"


def test_the_norms_are_those_of_flat_and_of_striped_images(network):
    grey = torch.full((4, 3, 16, 16), 0.5)
    assert loss(network, grey, variation=1.0, size=1.0) == pytest.approx(loss(network, grey))
    stripes = grey.clone()
    stripes[..., ::2] = 1.0  # 15 steps of 0.5 in each of 16 rows, 3 channels and 4 images
    steps = (15 * 16 * 3 * 4) ** 0.5 * 0.5
    assert loss(network, stripes, variation=1.0) - loss(network, stripes) == pytest.approx(steps, rel=1e-4)
    half = (8 * 16 * 3 * 4) ** 0.5 * 0.5
    assert loss(network, stripes, size=1.0) - loss(network, stripes) == pytest.approx(half, rel=1e-4)


def test_nothing_stays_behind_in_the_network(network, images):
    loss(network, images, statistics=1.0)
    assert not any(layer._forward_pre_hooks for layer in network.modules())
    with pytest.raises(ConfigError, match="the weight variation of an inversion must be 0 or more"):
        InversionLossConfig(variation=-1.0)
