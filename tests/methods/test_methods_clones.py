"""DFME and MAZE as methods: one clone an API, what they cost, and that a run cut off goes on for nothing."""

import pytest
import torch
from colour_apis import Flaky, colour_api

from dfml.errors import ConfigError, Unreachable
from dfml.events import Step
from dfml.learning import learn
from outcomes import same

GAME = ["rounds=4", "batch=8", "clone_steps=3", "directions=2", "filters=4", "latent=8", "replay_steps=2"]
SMALL = ["net.width=4", *(f"extraction.{setting}" for setting in GAME)]
PRICE = {"dfme": 4 * 8 * (1 + 2 + 3), "maze": 4 * 8 * (1 + 2 + 2)}
"""queries of one clone: the generator's images, their probes, and those of the clone"""


def learned(apis, out, method, *more, **kwargs):
    return learn(apis, out, method=method, settings=[*SMALL, *more], **kwargs)


@pytest.mark.parametrize("method", PRICE)
def test_every_api_is_cloned_once_and_the_clones_are_averaged(apis, tmp_path, method):
    both = learned(apis, tmp_path / "both", method)
    assert [api.answered for api in apis] == [PRICE[method]] * 2
    assert both.provenance["queries"] == 2 * PRICE[method]
    assert both.statistics, "classifiers need the statistics of learning"
    asleep = learned(apis, tmp_path / "asleep", method, "extraction.clone_lr=1e-12")
    start = learn(apis, tmp_path / "random", method="random", settings=["net.width=4"])
    assert all(torch.allclose(asleep.params[name], start.params[name], atol=1e-6) for name in start.params)
    assert not torch.allclose(both.params["head.weight"], start.params["head.weight"], atol=1e-3)


@pytest.mark.parametrize("method", PRICE)
def test_a_budget_is_never_passed(apis, tmp_path, method):
    learned(apis, tmp_path / "run", method, budget=PRICE[method] + 10)
    assert sum(api.answered for api in apis) == PRICE[method]
    with pytest.raises(ConfigError, match=f"below one clone, which takes {PRICE[method]} queries; raise it, or lower"):
        learned(apis, tmp_path / "none", method, budget=PRICE[method] - 1)


@pytest.mark.parametrize("method", PRICE)
@pytest.mark.parametrize("stop_after", [1, 5])
def test_a_run_that_was_cut_off_goes_on_to_the_same_bits_and_pays_nothing_twice(apis, tmp_path, method, stop_after):
    whole = learned(apis, tmp_path / "whole", method)
    seen = 0

    def stop(event):
        nonlocal seen
        seen += isinstance(event, Step)
        if seen > stop_after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learned(apis, tmp_path / "run", method, on_event=stop)
    resumed = learned(apis, tmp_path / "run", method, resume=True)
    assert same(whole, resumed)
    assert [api.answered for api in apis] == [2 * PRICE[method]] * 2


def test_one_silent_api_is_passed_over_and_all_silent_are_an_error(apis, tmp_path):
    apis[0].up = False
    learned(apis, tmp_path / "run", "dfme")
    assert apis[1].answered == PRICE["dfme"]
    apis[1].up = False
    with pytest.raises(Unreachable, match="none of the 2 APIs answered"):
        learned(apis, tmp_path / "silent", "dfme")


def test_an_api_of_another_way_gives_its_body_alone(tmp_path):
    apis = [Flaky(colour_api("three", 3)), Flaky(colour_api("five", 5, seed=4))]
    init = learned(apis, tmp_path / "run", "maze", "net.way=3")
    assert init.net.way == 3
    assert [api.answered for api in apis] == [PRICE["maze"]] * 2


def test_the_meta_learner_may_take_its_sets_from_an_extraction(apis, small, tmp_path):
    game = [f"recovery.extraction.{setting}" for setting in GAME]
    settings = [*small, *game, "recovery.strategy=extraction", "schedule.visits=2", "schedule.iterations=3"]
    learn(apis, tmp_path / "run", method="bidf-mkd", settings=settings)
    assert sum(api.answered for api in apis) == 2 * 2 * PRICE["dfme"]
