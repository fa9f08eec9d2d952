"""`dfml learn --images`: everything made of it says that it is not data-free."""

import json

import numpy as np
import pytest
from PIL import Image

from dfml.cli import main

CAVEAT = "not data-free: taught with 24 pictures of the user's own"


def dfml(*arguments):
    return main([str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def place(tiny_zoo, tmp_path_factory):
    """Photos of two kinds, as files of several sizes, and a run that was taught with them."""
    folder = tmp_path_factory.mktemp("own")
    rng = np.random.default_rng(0)
    for kind, level in (("dark", 60), ("light", 190)):
        (folder / "photos" / kind).mkdir(parents=True)
        for number in range(12):
            pixels = rng.normal(level, 30, (40 + number, 60, 3)).clip(0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / "photos" / kind / f"{number}.png")
    settings = ("--set", "queries=60", "--set", "net.width=4", "--set", "distil.steps=4")
    learn = ("learn", tiny_zoo, "--images", folder / "photos", *settings, "--out", folder / "run")
    assert dfml(*learn) == 0
    return folder


def test_learning_says_what_it_takes_and_what_came_of_it(tiny_zoo, place, tmp_path, capsys):
    settings = ("--set", "queries=60", "--set", "net.width=4", "--set", "distil.steps=4")
    assert dfml("learn", tiny_zoo, "--images", place / "photos", *settings, "--out", tmp_path / "run") == 0
    told = capsys.readouterr()
    assert CAVEAT in told.out
    assert "at most 180 queries; besides asking about" in " ".join(told.err.split())


def test_evaluations_say_it(place, capsys, tmp_path):
    arguments = ("evaluate", place / "run", "--way", 3, "--shot", 1, "--tasks", 3, "--head", "prototype")
    assert dfml(*arguments, "--json", tmp_path / "result.json") == 0
    assert CAVEAT in capsys.readouterr().out
    (row,) = json.loads((tmp_path / "result.json").read_text())
    assert (row["data_free"], row["caveat"]) == (False, CAVEAT)


def test_classifiers_and_reports_say_it(place, capsys, tmp_path):
    assert dfml("adapt", place / "run", "--support", place / "photos", "--out", tmp_path / "clf") == 0
    assert CAVEAT in capsys.readouterr().out
    assert dfml("report", place / "run", "--out", tmp_path / "page.html") == 0
    page = (tmp_path / "page.html").read_text()
    assert CAVEAT.replace("'", "&#39;").replace("not", "Not", 1) in page


def test_a_run_without_pictures_does_not(tiny_zoo, tmp_path, capsys):
    settings = ("--set", "queries=60", "--set", "net.width=4", "--set", "distil.steps=4")
    assert dfml("learn", tiny_zoo, *settings, "--out", tmp_path / "run") == 0
    arguments = ("evaluate", tmp_path / "run", "--way", 3, "--shot", 1, "--tasks", 3, "--head", "prototype")
    assert dfml(*arguments, "--json", tmp_path / "result.json") == 0
    assert "data-free" not in capsys.readouterr().out
    assert "data_free" not in json.loads((tmp_path / "result.json").read_text())[0]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--images", "{new}"), "is no folder"),
        (("--images", "{empty}"), "holds no images"),
        (("--images", "{photos}", "--method", "random"), "random makes its images by itself"),
    ],
)
def test_bad_folders_get_one_sentence(tiny_zoo, place, tmp_path, capsys, arguments, complaint):
    (tmp_path / "empty").mkdir()
    places = {"new": tmp_path / "new", "empty": tmp_path / "empty", "photos": place / "photos"}
    arguments = [argument.format(**places) for argument in arguments]
    assert dfml("learn", tiny_zoo, *arguments, "--out", tmp_path / "run") == 1
    message = capsys.readouterr().err
    assert complaint in message
    assert len(message.strip().splitlines()) == 1
