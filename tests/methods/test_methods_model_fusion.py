"""Model fusion: what must come out where networks are equal, alone, or can be told apart; and whom it refuses."""

import pytest
import torch
from colour_apis import colour_api
from open_apis import SPEC, open_api

from dfml.errors import ConfigError
from dfml.learning import learn
from dfml.methods.model_fusion import FusionConfig, fuse
from dfml.nets import NetSpec
from dfml.nets.functional import Net, average
from dfml.rng import stream

NET = Net(SPEC)
QUICK = FusionConfig(steps=200)


def networks(*seeds):
    return [NET.init(stream(seed)) for seed in seeds]


def near(a, b, tolerance=1e-5):
    return all(torch.allclose(a[name], b[name], atol=tolerance) for name in a)


def test_equal_networks_are_fused_into_themselves():
    (one,) = networks(1)
    assert near(fuse([one, one, one], QUICK, rng=stream(0)).params, one)
    assert near(fuse([one], QUICK, rng=stream(0)).params, one)


def test_each_network_can_be_told_from_its_embedding_and_the_fused_one_lies_among_them():
    many = networks(1, 2, 3)
    fused = fuse(many, FusionConfig(steps=300, penalty=100.0), rng=stream(0))
    mean = average(many)
    for network, rebuilt in zip(many, fused.rebuilt, strict=True):
        kernel = "blocks.1.conv.weight"
        missed = (rebuilt[kernel] - network[kernel]).norm() / (mean[kernel] - network[kernel]).norm()
        assert missed < 0.2


def test_the_further_the_worst_embedding_may_lie_the_less_the_networks_differ():
    def spread(penalty):
        config = FusionConfig(steps=200, penalty=penalty)
        rebuilt = fuse(networks(1, 2, 3), config, rng=stream(0)).rebuilt
        return torch.stack([network["blocks.1.conv.weight"] for network in rebuilt]).std(0).mean().item()

    assert spread(0.003) < 0.9 * spread(10.0)


def test_one_api_alone_is_taken_over_and_answers_the_same(tmp_path):
    api = open_api("one", seed=3, std=[0.5, 0.5, 0.5])
    init = learn([api], tmp_path / "run", method="model-fusion", settings=["net.width=4", "fusion.steps=5"])
    assert init.provenance["queries"] == 0
    kernel = api.network.net.get_parameter("blocks.0.conv.weight")
    assert torch.allclose(init.params["blocks.0.conv.weight"], kernel * 0.25 / 0.5, atol=1e-6)
    assert torch.allclose(init.params["blocks.2.conv.weight"], api.network.net.get_parameter("blocks.2.conv.weight"))


def test_apis_that_cannot_be_fused_are_named(tmp_path):
    wide = open_api("wide", NetSpec(way=3, size=16, width=6))
    with pytest.raises(ConfigError, match="wide: its network is no conv4 of width 4 for 3 channels"):
        learn([wide], tmp_path / "wide", method="model-fusion", settings=["net.width=4"])
    with pytest.raises(ConfigError, match="shut is a black box; model-fusion needs a zoo with weights"):
        learn([colour_api("shut")], tmp_path / "shut", method="model-fusion", settings=["net.width=4"])


def test_heads_of_another_way_are_left_out(tmp_path):
    five = open_api("five", NetSpec(way=5, size=16, width=4), seed=2)
    init = learn(
        [five], tmp_path / "run", method="model-fusion", settings=["net.width=4", "net.way=3", "fusion.steps=2"]
    )
    start = Net(init.net).init(stream(0, "meta-model"))
    assert torch.equal(init.params["head.weight"], start["head.weight"])
