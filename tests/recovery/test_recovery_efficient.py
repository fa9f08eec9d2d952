"""The promise of `EFFICIENT` on a real classifier: 99 % at their targets for at most 200 queries an image."""

import pytest
import torch

from dfml.apis.blackbox import ApiSpec
from dfml.apis.degrade import Quantised, Rounded
from dfml.apis.local.module import ModuleApi
from dfml.data import open_dataset
from dfml.nets import NetSpec
from dfml.recovery.inversion import EFFICIENT, invert
from dfml.rng import stream
from dfml.zoo.training import TrainConfig, train


@pytest.mark.slow
def test_real_apis_are_inverted_for_a_hundredth_of_the_papers_price(real_data, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    part = open_dataset("cifar-fs", "train", data=real_data / "cifar-fs")
    images = torch.cat([part.tensor(index) for index in range(5)])
    labels = torch.arange(5).repeat_interleave(torch.tensor(part.counts[:5]))
    net = train(NetSpec(way=5), images * 4 - 2, labels, TrainConfig(), seed=0, on_epoch=lambda _: None)
    spec = ApiSpec(name="real", classes=part.classes[:5], image=(3, 32, 32))
    exact = ModuleApi(net, spec, mean=[0.5] * 3, std=[0.25] * 3)
    for api in (exact, Rounded(Quantised(exact), 3)):
        found = invert(api, EFFICIENT, rng=stream(0, "recovery"))
        assert len(found.images) == 150
        assert found.reached >= 0.99
        assert found.queries <= 200 * 150
