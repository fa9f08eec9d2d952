"""What a run folder tells, read back from files written by hand."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from dfml.apis.blackbox import ApiSpec
from dfml.apis.ledger import Ledger, Metered, ledger_path
from dfml.apis.local.function import FunctionApi
from dfml.errors import BadAnswer
from dfml.evaluation.records import Evaluation, Score, mean_score
from dfml.report.page import report
from dfml.report.story import is_run, read_run

RESULT = {"dataset": "glyphs", "part": "test", "way": 5, "shot": 1, "tasks": 9, "head": "prototype", "centre": True}


def written(folder, events, **files):
    folder.mkdir()
    (folder / "config.toml").write_text('method = "bidf-mkd"\nseed = 0\napis = ["a", "b"]\n')
    (folder / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events) + '{"event": "Repl')
    for name, content in files.items():
        (folder / f"{name}.json").write_text(content)
    return folder


@pytest.fixture
def run(tmp_path):
    joined = {"event": "ApiJoined", "api": "a", "classes": ["x", "<y>"], "accuracy": 0.5, "price": 1.5}
    visited = {"event": "Visited", "api": "a", "support_reached": 0.5, "outer_loss": 1.0, "queries": 7}
    events = [
        {"time": 1000.0, **joined},
        {"time": 1001.0, "event": "LearningStarted"},
        {"time": 1011.0, "event": "Replayed", "iteration": 3, "loss": 2.0, "accuracy": 0.1},
        {"time": 1012.0, "event": "ApiFailed", "iteration": 4, "api": "b", "reason": "token=hush at /home/someone"},
        {"time": 5000.0, **joined},
        {"time": 5001.0, "event": "LearningStarted"},
        {"time": 5001.5, "event": "ApiHeard", "api": "a", "answers": 7, "label_entropy": 0.5},
        {"time": 5002.0, "event": "Replayed", "iteration": 3, "loss": 1.5, "accuracy": 0.2},
        {"time": 5003.0, "iteration": 4, **visited},
        {"time": 5005.0, "iteration": 5, **visited, "support_reached": 1.0, "outer_loss": None},
    ]
    good = json.dumps([RESULT | {"mean": 40.0, "ci95": 0.5}, RESULT | {"shot": 5, "mean": 50.0, "ci95": 0.7}])
    return read_run(written(tmp_path / "run", events, one=good, again=good, other='{"a": 1}', broken="{"))


def test_time_at_work_leaves_out_the_pause(run):
    assert run.seconds == pytest.approx(11 + 4)
    assert run.starts == 2


def test_an_iteration_that_was_redone_counts_once(run):
    assert run.curve("Replayed", "loss") == [(3, 1.5)]
    assert run.curve("Visited", "outer_loss") == [(4, 1.0)]


def test_each_api_has_its_own_story(run):
    first, second = run.apis
    assert (first.classes, first.accuracy, first.reached, first.failures) == (("x", "<y>"), 0.5, 0.75, 0)
    assert (second.classes, second.accuracy, second.reached, second.failures) == ((), None, None, 1)
    assert (first.money, second.money) == (0.0, None)
    assert (first.label_entropy, first.most_bits, second.label_entropy) == (0.5, 1.0, None)


def test_evaluations_are_found_under_any_name_and_once(run):
    assert [(e.shot, e.head, e.score.text) for e in run.evaluations] == [
        (1, "prototype, centred", "40.0 ± 0.5"),
        (5, "prototype, centred", "50.0 ± 0.7"),
    ]
    assert run.headline.shot == 5


def test_an_unfinished_run_says_so(run, tmp_path):
    assert not run.finished
    assert is_run(tmp_path / "run")
    assert not is_run(tmp_path)


def test_scores():
    assert mean_score([Score(40, 0.4), Score(44, 0.6)]) == Score(42, 0.5)
    assert Score(10, 3).apart(Score(20, 4)) == pytest.approx(-2)  # 10 below, and 3-4-5
    assert Score(10, 0).apart(Score(20, 0)) == 0


def test_the_headline_is_not_the_best_of_several(run):
    def found(part, shot, head, mean):
        return Evaluation("glyphs", part, 5, shot, 10, head, Score(mean, 1.0))

    lucky, product = found("test", 5, "prototype", 90.0), found("test", 5, "prototype, frozen statistics", 60.0)
    chosen = replace(run, evaluations=(found("val", 5, "prototype", 99.0), lucky, product)).headline
    assert chosen == product


def test_what_was_paid_for_nothing_is_told(tmp_path):
    """Three images, of which two got answers that cannot be used; at 1,500 USD for 1,000 that is money, too."""
    folder = written(tmp_path / "run", [{"event": "ApiJoined", "time": 1.0, "api": "a", "classes": [], "price": 1500}])
    with Ledger(ledger_path(folder, "a")) as ledger:
        spec = ApiSpec(name="a", classes=("x", "y"), image=(1, 2, 2))
        Metered(FunctionApi(lambda images: np.full((len(images), 2), 0.5), spec), ledger)(torch.zeros(1, 1, 2, 2))
        with pytest.raises(BadAnswer):
            Metered(FunctionApi(lambda images: np.ones((len(images), 3)), spec), ledger)(torch.rand(2, 1, 2, 2))
    told = read_run(folder)
    assert [(api.queries, api.unusable, api.in_doubt) for api in told.apis] == [(1, 2, 0), (0, 0, 0)]
    assert told.money == pytest.approx(4.5)
    assert "2 were no probabilities of its classes" in report(folder)


@pytest.mark.parametrize(
    ("queries", "unusable", "weight", "share", "why"),
    [
        (75, 25, 1.0, 0.25, "25 were no probabilities"),
        (75, 25, 0.0, 1.0, "do not depend on the image"),
        (10, 0, None, 0.0, ""),
        (0, 0, None, None, ""),
    ],
)
def test_what_was_dropped_and_why(run, queries, unusable, weight, share, why):
    api = replace(run.apis[0], queries=queries, unusable=unusable, weight=weight)
    assert api.dropped == share
    assert why in api.why_dropped
    assert bool(why) == bool(api.why_dropped)
