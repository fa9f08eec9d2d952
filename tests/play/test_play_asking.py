"""The switch: offline nothing is sent; on, only what was said before, within the budget, and never twice."""

import json
import threading
from typing import Any

import pytest
import tomli_w

from dfml import FewShotClassifier, spending
from dfml.cli import main
from play.played import COLOURS, coloured
from serving.live import serving, write_remote

PHOTOS = """
import numpy as np, os, pathlib

def _answer(images, weights):
    with open(pathlib.Path(__file__).with_name("sent"), "a") as diary:
        diary.write("x" * len(images))
    scores = np.exp((images.mean((2, 3)) - 0.4) @ weights)
    return scores / scores.sum(1, keepdims=True)

def colours(images):
    return _answer(images, 30 * np.eye(3))

def hostile(images):
    return _answer(images, np.random.default_rng(0).normal(size=(3, 3)) * 9)
"""
EVIL = '"><img src=x onerror=alert(1)>'


@pytest.fixture
def manifest(tmp_path, monkeypatch):
    """Two functions that write down how many images they were sent; one bears a hostile class."""
    (tmp_path / "photos_api.py").write_text(PHOTOS)
    monkeypatch.syspath_prepend(tmp_path)
    classes = {"colours": ["crimson", "lime", "navy"], "hostile": ["a", "b", EVIL]}
    apis: dict[str, dict[str, Any]] = {
        name: {"protocol": "python", "function": f"photos_api:{name}", "classes": classes[name], "image": [3, 8, 8]}
        for name in classes
    }
    apis["colours"]["price"] = 2.0
    (tmp_path / "apis.toml").write_text(tomli_w.dumps({"apis": apis}))
    return tmp_path / "apis.toml"


def sent(manifest):
    diary = manifest.with_name("sent")
    return len(diary.read_text()) if diary.exists() else 0


def test_offline_nothing_is_sent_whatever_is_done(play, manifest):
    played = play(ask=manifest, budget=100)
    played.teach()
    played.add(coloured("red", 9))
    assert len(played.ask("api/judgement")["said"]) == 1
    told = played.tell("api/ask", {"pictures": list(played.studio.album.pictures), "every": True})
    assert told == {"problem": "asking is off; turn the switch first"}
    played.tell("api/save", {})
    played.ask("api/learned")
    assert sent(manifest) == 0
    assert not (played.studio.folder / "ledger").exists()


def test_on_it_costs_what_was_said_and_is_never_paid_for_twice(play, manifest):
    played = play(ask=manifest, budget=100)
    played.teach(2)
    cost = played.ask("api/state")["asking"]["cost"]
    assert (cost["queries"], cost["examples"], cost["picture"], cost["budget"]) == (0, 12, 2, 100)
    played.tell("api/switch", {"on": True})
    assert sent(manifest) == 0, "the switch itself sends nothing"
    played.tell("api/ask", {"pictures": []})
    assert sent(manifest) == 12
    new = played.add(coloured("red", 9))["number"]
    told = played.tell("api/ask", {"pictures": [new], "every": True})
    assert sent(manifest) == 14
    assert told["asking"]["cost"]["queries"] == 14 == spending(played.studio.folder)["queries"]
    assert told["asking"]["cost"]["usd"] == pytest.approx(7 * 2.0 / 1000)
    assert told["heard"]["asked"] == {str(new): 2}
    opinions = {o["api"]: o["told"] for o in played.ask(f"api/pictures/{new}")["opinions"]}
    assert opinions["colours"][0][0] == "crimson"
    assert {name for name, _ in opinions["hostile"]} == {"a", "b", EVIL}
    played.tell("api/ask", {"pictures": [new], "every": True})
    played.client.patch(f"api/pictures/{new}", json={"into": next(iter(played.studio.album.classes))})
    played.tell("api/ask", {"pictures": []})
    assert sent(manifest) == 14, "what was asked as a new picture is on file when it teaches"


def test_a_budget_is_never_passed(play, manifest):
    played = play(ask=manifest, budget=15)
    played.teach(2)
    played.tell("api/switch", {"on": True})
    for seed in range(5):
        new = played.add(coloured("red", 50 + seed))["number"]
        told = played.tell("api/ask", {"pictures": [new], "every": True})
    assert sent(manifest) == 15
    assert "budget is spent" in " ".join(told["heard"]["failures"].values())


def test_switching_off_holds_back_what_is_under_way(play, manifest):
    played = play(ask=manifest, budget=100)
    played.teach(2)
    asking = played.studio.asking
    played.tell("api/switch", {"on": True})
    second = asking.apis[1]
    called = threading.Event()
    inner = second.api

    class Slow:
        spec = inner.spec

        def __call__(self, images):
            called.set()
            return inner(images)

    second.api = Slow()
    second.is_open = lambda: played.tell("api/switch", {"on": False})["asking"]["on"]
    told = played.tell("api/ask", {"pictures": []})
    assert "switched off" in told["problem"]
    assert not called.is_set()
    assert sent(manifest) == 6, "only the first API was asked"


def test_a_live_classifier_is_saved_and_goes_on_where_it_was(play, manifest, tmp_path):
    played = play(ask=manifest, budget=100)
    played.teach(2)
    played.tell("api/switch", {"on": True})
    played.tell("api/ask", {"pictures": []})
    told = played.tell("api/save", {})
    assert told["line"] == f"dfml predict {tmp_path / 'clf'} IMAGE... --ask auto --budget 100"
    assert FewShotClassifier.load(tmp_path / "clf").api_weights_.keys() == {"colours", "hostile"}
    assert played.ask("api/judgement")["heard"]["failures"] == {}, "what was said is not forgotten by saving"
    again = play(tmp_path / "clf", budget=100)
    again.tell("api/switch", {"on": True})
    again.tell("api/ask", {"pictures": []})
    assert sent(manifest) == 12
    assert again.ask("api/state")["asking"]["cost"]["queries"] == 12


def test_what_adapt_made_can_be_tried_and_asked(play, manifest, run_folder, tmp_path):
    for colour in COLOURS:
        (tmp_path / "support" / colour).mkdir(parents=True)
        for seed in range(2):
            (tmp_path / "support" / colour / f"{seed}.png").write_bytes(coloured(colour, seed))
    base = ["adapt", str(run_folder), "--support", str(tmp_path / "support")]
    assert main([*base, "--out", str(tmp_path / "live"), "--ask", str(manifest), "--budget", "100"]) == 0
    before = sent(manifest)
    played = play(tmp_path / "live", budget=100)
    state = played.ask("api/state")
    assert state["fixed"]
    assert [c["name"] for c in state["classes"]] == sorted(COLOURS)
    new = played.add(coloured("blue", 9))["number"]
    judged = played.ask("api/judgement")
    assert judged["classes"][max(range(3), key=judged["said"][str(new)].__getitem__)] == sorted(COLOURS).index("blue")
    assert "came without its pictures" in played.tell("api/classes", {"name": "x"})["problem"]
    played.tell("api/switch", {"on": True})
    assert played.tell("api/ask", {"pictures": [new], "every": True})["heard"]["asked"] == {str(new): 2}
    assert sent(manifest) == before + 2


def test_apis_that_cost_need_a_budget(manifest, run_folder, tmp_path, capsys):
    assert main(["play", str(run_folder), "--ask", str(manifest), "--out", str(tmp_path / "x"), "--no-browser"]) == 1
    assert "say how many queries may be sent with --budget" in capsys.readouterr().err


def test_a_served_zoo_with_faults_is_asked_all_the_same_and_no_secret_is_told(play, tiny_zoo, tmp_path, monkeypatch):
    monkeypatch.setenv("PLAY_SECRET", "hush-hush-hush")
    headers = {"Authorization": "Bearer ${PLAY_SECRET}"}
    faults = ["--fail-rate", "0.3", "--fail-with", "500", "503", "malformed", "truncated"]
    with serving(tiny_zoo, *faults) as server:
        manifest = write_remote(
            tmp_path / "remote.toml",
            tiny_zoo,
            server.url,
            protocol="inference_v2",
            headers=headers,
            limits={"retries": 4},
        )
        played = play(ask=manifest, budget=200)
        played.teach(2)
        played.tell("api/switch", {"on": True})
        new = played.add(coloured("red", 9))["number"]
        told = played.tell("api/ask", {"pictures": [new], "every": True})
        server.process.kill()
        server.process.wait()
        later = played.add(coloured("blue", 9))["number"]
        after = played.tell("api/ask", {"pictures": [later], "every": True})
    assert told["heard"]["failures"] == {}
    assert told["asking"]["cost"]["queries"] >= 18
    assert after["heard"]["asked"][str(later)] == 0
    assert after["heard"]["failures"]
    everything = [told, after, played.ask("api/state"), played.ask("api/learned"), played.ask(f"api/pictures/{new}")]
    assert "hush" not in json.dumps(everything)
