"""Parameter counts against closed forms; shapes and the role of BatchNorm at the sizes of the field."""

from typing import Any

import pytest
import torch

from dfml.errors import ConfigError
from dfml.images.generator import Generator
from dfml.nets import NetSpec
from dfml.rng import stream


def conv4_count(way: int, width: int, size: int, channels: int) -> int:
    convolutions = 9 * channels * width + 3 * 9 * width * width + 4 * width
    norms = 4 * 2 * width
    linear = width * (size // 16) ** 2 * way + way
    return convolutions + norms + linear


def resnet_count(way: int, width: int, channels: int, blocks: int) -> int:
    total = 9 * channels * width + 2 * width
    inputs = width
    for stage in range(4):
        outputs = width * 2**stage
        for block in range(blocks):
            source = inputs if block == 0 else outputs
            total += 9 * source * outputs + 9 * outputs * outputs + 4 * outputs
            if block == 0 and stage > 0:
                total += source * outputs + 2 * outputs
        inputs = outputs
    return total + inputs * way + way


def generator_count(size: int, channels: int, filters: int, latent: int) -> int:
    wide, cells = 2 * filters, (size // 4) ** 2
    project = latent * wide * cells + wide * cells
    paint = 9 * wide * wide + wide + 9 * wide * filters + filters + 9 * filters * channels + channels
    norms = 2 * wide + 2 * wide + 2 * filters
    return project + paint + norms


def parameters(module: torch.nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize(("way", "width", "size", "channels"), [(5, 32, 32, 3), (10, 64, 84, 3), (5, 16, 28, 1)])
def test_conv4_has_the_parameters_of_its_closed_form(way, width, size, channels):
    net = NetSpec(way=way, width=width, size=size, channels=channels).build(rng=stream(0))
    assert parameters(net) == conv4_count(way, width, size, channels)


def test_a_growing_conv4_doubles_its_filters_from_block_to_block():
    net = NetSpec(arch="conv4-growing", width=8, way=6, size=48).build(rng=stream(0))
    convolutions = 9 * (3 * 8 + 8 * 16 + 16 * 32 + 32 * 64)
    biases_and_norms = 3 * (8 + 16 + 32 + 64)
    assert parameters(net) == convolutions + biases_and_norms + 64 * 3**2 * 6 + 6


@pytest.mark.parametrize(("arch", "blocks"), [("resnet10", 1), ("resnet18", 2)])
@pytest.mark.parametrize("width", [8, 64])
def test_resnets_have_the_parameters_of_their_closed_form(arch, blocks, width):
    net = NetSpec(arch=arch, width=width, way=7).build(rng=stream(0))
    assert parameters(net) == resnet_count(7, width, 3, blocks)


def test_resnet18_of_the_published_width_is_the_known_cifar_network():
    # 11,173,962 is the figure everybody quotes for ResNet18 with a 3x3 stem and 10 classes.
    assert parameters(NetSpec(arch="resnet18", way=10).build(rng=stream(0))) == 11_173_962


@pytest.mark.parametrize("arch", ["conv4", "conv4-growing", "resnet10", "resnet18"])
@pytest.mark.parametrize("size", [28, 32, 84])
def test_networks_map_images_to_one_logit_a_class(arch, size, rng):
    net = NetSpec(arch=arch, size=size, width=8, way=6).build(rng=rng)
    images = torch.rand(3, 3, size, size, generator=rng)
    assert net(images).shape == (3, 6)
    assert torch.equal(net.head(net.features(images)), net(images))


@pytest.mark.parametrize(("size", "channels"), [(28, 1), (32, 3), (84, 3)])
def test_generator_paints_images_strictly_between_0_and_1(size, channels, rng):
    generator = Generator(rng=rng, size=size, channels=channels)
    images = generator(torch.randn(4, 256, generator=rng))
    assert images.shape == (4, channels, size, size)
    assert images.min() > 0
    assert images.max() < 1
    assert images.std() > 0.01, "an untrained generator must not begin saturated or flat"
    assert parameters(generator) == generator_count(size, channels, 64, 256)


def test_generator_refuses_a_size_it_cannot_reach_by_doubling_twice(rng):
    with pytest.raises(ConfigError, match="must divide by 4, not 30"):
        Generator(rng=rng, size=30)


def test_batch_norm_batch_depends_on_the_batch_and_running_does_not(rng):
    images = torch.rand(8, 3, 32, 32, generator=rng)
    running = NetSpec(width=8).build(rng=stream(1)).eval()
    batch = NetSpec(width=8).build(rng=stream(1), batch_norm="batch").eval()
    assert torch.allclose(running(images)[:4], running(images[:4]), atol=1e-5)
    assert not torch.allclose(batch(images)[:4], batch(images[:4]), atol=1e-3)
    assert not list(batch.buffers()), "batch statistics leave nothing behind"


def test_the_same_stream_gives_the_same_weights_and_leaves_the_global_generator_to_others():
    first: Any
    other: Any
    first, again, other = (NetSpec(width=8).build(rng=stream(seed)) for seed in (3, 3, 4))
    pairs = list(zip(first.parameters(), again.parameters(), strict=True))
    assert all(torch.equal(a, b) for a, b in pairs)
    assert not torch.equal(first.blocks[0].conv.weight, other.blocks[0].conv.weight)


def test_convolutions_begin_with_the_variance_of_he(rng):
    net: Any = NetSpec(width=64).build(rng=rng)
    weight = net.blocks[1].conv.weight
    assert weight.std().item() == pytest.approx((2 / (9 * 64)) ** 0.5, rel=0.02)


def test_relu_after_pooling_is_the_block_of_the_paper(rng):
    net: Any = NetSpec(width=8).build(rng=rng)
    block = net.blocks[0].eval()
    images = torch.randn(5, 3, 32, 32, generator=rng)
    paper = torch.max_pool2d(torch.relu(block.norm(block.conv(images))), 2)
    assert torch.equal(block(images), paper)


def test_an_unknown_architecture_is_refused_by_name():
    wrong: Any = "conv5"
    with pytest.raises(ConfigError, match=r"conv5.*choose one of conv4, conv4-growing, resnet10, resnet18"):
        NetSpec(arch=wrong)
