"""PURER: images that their APIs know, tasks that become harder, and runs that go on where they ended."""

import pytest
import torch
from colour_apis import colour_api

from dfml.errors import ConfigError
from dfml.events import Replayed
from dfml.learning import learn
from dfml.meta.state import LearnerState
from outcomes import events_of

SMALL = [
    "net.width=4",
    "iterations=6",
    "data.images_per_class=4",
    "replay.shot=1",
    "replay.query=3",
    "replay.batch=2",
    "replay.inner_steps=1",
]


def learned(apis, out, *more, **kwargs):
    return learn(apis, out, method="purer", settings=[*SMALL, *more], **kwargs)


def data(run):
    return LearnerState.load(run / "checkpoint.safetensors").params["data"]


def test_the_images_become_what_their_api_calls_them_and_nothing_is_asked(opened, tmp_path):
    init = learned(opened, tmp_path / "run", "iterations=40", "replay.batch=1")
    images = data(tmp_path / "run")
    assert images.shape == (6, 4, 3, 16, 16)
    assert init.provenance["queries"] == 0
    assert init.statistics
    right = [
        (api(images[3 * i : 3 * i + 3].flatten(0, 1)).argmax(1) == torch.arange(3).repeat_interleave(4)).float().mean()
        for i, api in enumerate(opened)
    ]
    assert sum(right) / 2 > 0.75


def test_a_harder_step_raises_the_loss_of_the_tasks(opened, tmp_path):
    """From the same start, with the curriculum at every step and without it: the meta model does not move."""
    still = ["replay.outer_lr=0.0", "iterations=12", "curriculum.patience=1", "data.loss.statistics=0.0"]
    for name, weight in (("easy", 0), ("hard", 1000)):
        learned(opened, tmp_path / name, *still, f"curriculum.weight={weight}")
    easy, hard = ([event["loss"] for event in events_of(tmp_path / name, "Replayed")] for name in ("easy", "hard"))
    assert sum(hard[-4:]) > 1.02 * sum(easy[-4:])


@pytest.mark.parametrize("stop_after", [0, 3])
def test_a_run_that_was_cut_off_goes_on_to_the_same_bits(opened, tmp_path, stop_after):
    whole = learned(opened, tmp_path / "whole", "curriculum.patience=1")

    def stop(event):
        if isinstance(event, Replayed) and event.iteration == stop_after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learned(opened, tmp_path / "run", "curriculum.patience=1", on_event=stop)
    resumed = learned(opened, tmp_path / "run", "curriculum.patience=1", resume=True)
    assert all(torch.equal(whole.params[name], resumed.params[name]) for name in whole.params)
    assert events_of(tmp_path / "run", "Replayed")[-1]["iteration"] == 5


def test_what_cannot_work_is_refused(opened, tmp_path):
    with pytest.raises(ConfigError, match=r"data.images_per_class is 4, but a task needs .* = 6"):
        learned(opened, tmp_path / "few", "replay.query=5")
    with pytest.raises(ConfigError, match="a task has 7 classes and all APIs together 6"):
        learned(opened, tmp_path / "wide", "net.way=7")
    with pytest.raises(ConfigError, match="shut is a black box; purer needs a zoo with weights"):
        learned([colour_api("shut")], tmp_path / "shut")
