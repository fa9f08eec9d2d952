"""FREE: a generator that learns to be adapted, theta that follows its APIs, and runs that go on where they ended."""

import pytest
from colour_apis import colour_api
from open_apis import open_api

from dfml.errors import ConfigError
from dfml.events import Replayed
from dfml.learning import learn
from dfml.nets import NetSpec
from outcomes import events_of, same

SMALL = [
    "net.width=4",
    "rounds=5",
    "warmup=1",
    "apis=2",
    "replays=2",
    "generator.images_per_class=6",
    "generator.filters=4",
    "generator.latent=8",
    "generator.lr=0.01",
    "replay.shot=1",
    "replay.query=2",
    "replay.batch=2",
    "replay.inner_steps=1",
]


def learned(apis, out, *more, **kwargs):
    return learn(apis, out, method="free", settings=[*SMALL, *more], **kwargs)


def test_the_meta_generator_learns_to_reach_more_in_as_few_steps(opened, tmp_path):
    few = ["generator.steps=3", "generator.lr=0.003", "generator.filters=8", "generator.boundary=0.0", "apis=1"]
    init = learned(opened[:1], tmp_path / "run", "rounds=40", "warmup=35", *few)
    reached = [event["support_reached"] for event in events_of(tmp_path / "run", "Visited")][:35]
    assert sum(reached[-10:]) > sum(reached[:10]) + 0.5
    assert init.provenance["queries"] == 0
    assert init.statistics


def test_without_a_rate_theta_stays_and_with_one_it_moves(opened, tmp_path):
    still = learned(opened, tmp_path / "still", "replay.outer_lr=0.0")
    start = learn(opened, tmp_path / "random", method="random", settings=["net.width=4"])
    assert same(still, start)
    moved = learned(opened, tmp_path / "moved")
    assert not same(moved, start)


@pytest.mark.parametrize("stop_at", [1, 3])
def test_a_run_that_was_cut_off_goes_on_to_the_same_bits(opened, tmp_path, stop_at):
    whole = learned(opened, tmp_path / "whole")

    def stop(event):
        if isinstance(event, Replayed) and event.iteration == stop_at:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learned(opened, tmp_path / "run", on_event=stop)
    assert same(whole, learned(opened, tmp_path / "run", resume=True))


def test_apis_may_have_other_ways_than_the_meta_model(opened, tmp_path):
    four = open_api("four", NetSpec(way=4, size=16, width=4), seed=5, steps=40)
    init = learned([*opened, four], tmp_path / "run", "net.way=3", "apis=3")
    assert init.net.way == 3


def test_what_cannot_work_is_refused(opened, tmp_path):
    with pytest.raises(ConfigError, match="all 5 rounds would be warm-up"):
        learned(opened, tmp_path / "warm", "warmup=5")
    with pytest.raises(ConfigError, match="a task has 7 classes and all APIs together 6"):
        learned(opened, tmp_path / "wide", "net.way=7")
    with pytest.raises(ConfigError, match="shut is a black box; free needs a zoo with weights"):
        learned([colour_api("shut")], tmp_path / "shut")
    with pytest.raises(ConfigError, match="never came together; raise rounds, warmup"):
        learned(opened, tmp_path / "short", "replay.query=300")
    assert not (tmp_path / "short" / "init.safetensors").exists()
