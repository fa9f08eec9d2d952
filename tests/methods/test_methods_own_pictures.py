"""Learning with pictures of one's own: who sees them, and who says so."""

import numpy as np
import pytest
import torch
from colour_apis import Flaky, colour_api

from dfml.apis.blackbox import ApiSpec
from dfml.errors import ConfigError
from dfml.events import Step
from dfml.initialisation import Initialisation
from dfml.learning import learn
from dfml.methods import METHODS
from dfml.runs import read_config
from outcomes import events_of

SMALL = ["queries=120", "net.width=8", "distil.steps=20", "distil.batch=32"]


class Watched:
    """An API of 24 pixels that remembers the images it was asked about."""

    def __init__(self):
        self.spec = ApiSpec(name="watched", classes=("a", "b", "c"), image=(3, 24, 24))
        self.seen = []

    def __call__(self, images):
        self.seen += [np.round(255 * image.numpy()).astype(np.uint8) for image in images]
        return colour_api("inside", size=24)(images)


@pytest.fixture
def pictures():
    return np.random.default_rng(0).integers(0, 256, (50, 3, 24, 24), dtype=np.uint8)


def test_own_pictures_are_asked_about_once_each_in_full_size_and_before_drawn_ones(pictures, tmp_path):
    api = Watched()
    init = learn([api], tmp_path / "run", settings=[*SMALL, "net.size=16"], images=pictures)
    assert len(api.seen) == 120
    assert all(np.array_equal(seen, own) for seen, own in zip(api.seen, pictures, strict=False))
    assert init.net.size == 16


def test_colours_may_come_last(pictures, tmp_path):
    first, last = (
        learn([colour_api("a")], tmp_path / str(i), settings=SMALL, images=p)
        for i, p in enumerate((pictures, pictures.transpose(0, 2, 3, 1)))
    )
    assert all(torch.equal(first.params[name], last.params[name]) for name in first.params)


def test_a_budget_reaches_for_own_pictures_first(pictures, tmp_path):
    api = Watched()
    learn([api], tmp_path / "run", settings=SMALL[1:], images=pictures, budget_per_api=30)
    assert len(api.seen) == 30
    assert all(np.array_equal(seen, own) for seen, own in zip(api.seen, pictures, strict=False))
    assert not list((tmp_path / "run" / "recovered").iterdir()), "a user's pictures are not copied into the run"


def test_the_product_says_that_it_is_not_data_free(pictures, tmp_path):
    free = learn([colour_api("a")], tmp_path / "free", settings=SMALL)
    assert free.data_free
    assert free.caveat is None
    taught = learn([colour_api("a")], tmp_path / "taught", settings=SMALL, images=pictures)
    for init in (taught, Initialisation.load(tmp_path / "taught")):
        assert not init.data_free
        assert init.provenance["taught_with"]["pictures"] == 50
        assert init.caveat == "not data-free: taught with 50 pictures of the user's own"
    assert read_config(tmp_path / "taught")["taught_with"] == taught.provenance["taught_with"]


def test_a_stopped_run_goes_on_with_the_same_pictures_only(pictures, tmp_path):
    whole = learn([colour_api("a")], tmp_path / "whole", settings=SMALL, images=pictures)

    def stop(event):
        if isinstance(event, Step) and event.stage == "distilling" and event.done == 5:
            raise KeyboardInterrupt

    api = Flaky(colour_api("a"))
    with pytest.raises(KeyboardInterrupt):
        learn([api], tmp_path / "run", settings=SMALL, images=pictures, on_event=stop)
    for others in (pictures[::-1].copy(), None):
        with pytest.raises(ConfigError, match=r"another config .*taught_with"):
            learn([api], tmp_path / "run", settings=SMALL, images=others, resume=True)
    resumed = learn([api], tmp_path / "run", settings=SMALL, images=pictures, resume=True)
    assert all(torch.equal(whole.params[name], resumed.params[name]) for name in whole.params)
    assert api.answered == 120


@pytest.mark.parametrize("method", [name for name in METHODS if name not in ("chorus", "white-box")])
def test_other_methods_refuse(pictures, tmp_path, method):
    with pytest.raises(ConfigError, match=f"{method} makes its images by itself; only chorus"):
        learn([colour_api("a")], tmp_path / "run", method=method, images=pictures)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("images", "complaint"),
    [
        (np.zeros((0, 3, 8, 8), np.uint8), "at least one"),
        (np.zeros((3, 8, 8), np.uint8), "got shape"),
        (np.zeros((2, 3, 8, 8), np.float32), "8-bit"),
        (np.zeros((2, 4, 8, 8), np.uint8), "not 4"),
    ],
)
def test_what_is_no_picture_is_refused(tmp_path, images, complaint):
    with pytest.raises(ConfigError, match=complaint):
        learn([colour_api("a")], tmp_path / "run", images=images)


def test_a_count_without_pictures_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="--images"):
        learn([colour_api("a")], tmp_path / "run", settings=["own_images=3"])


def test_the_estimate_comes_before_the_first_query(pictures, tmp_path):
    api = Watched()
    told = []
    learn([api], tmp_path / "run", settings=SMALL, on_event=lambda e: told.append((type(e).__name__, len(api.seen))))
    assert ("Planned", 0) in told
    (planned,) = events_of(tmp_path / "run", "Planned")
    assert (planned["queries"], planned["usd"]) == (120, None)
    folder = sum(file.stat().st_size for file in (tmp_path / "run").rglob("*") if file.is_file())
    assert planned["disk"] / 10 < folder < planned["disk"] * 10
