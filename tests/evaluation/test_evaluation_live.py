"""Accuracy against queries a prediction."""

import json

import pytest
import torch

from dfml.apis.ledger import spending
from dfml.cli import main
from dfml.evaluation.live import calibration_error, reliability
from dfml.evaluation.records import parse
from dfml.initialisation import Initialisation
from dfml.nets import NetSpec
from dfml.nets.functional import Net
from dfml.rng import stream


def test_a_calibration_error_is_the_mean_gap_between_word_and_truth():
    said = torch.tensor([0.95, 0.95, 0.55, 0.55, 0.55, 0.55])
    right = torch.tensor([True, False, True, True, False, False])
    bins = reliability(said, right)
    assert [value for row in bins for value in row] == pytest.approx([0.55, 0.5, 4, 0.95, 0.5, 2], abs=1e-6)
    assert calibration_error(bins) == pytest.approx((2 * 0.45 + 4 * 0.05) / 6, abs=1e-6)


def test_the_curve_says_what_it_measured_and_pays_for_no_answer_twice(tiny_zoo, tmp_path, capsys):
    spec = NetSpec(width=4, size=32, way=3)
    Initialisation(Net(spec).init(stream(0)), spec).save(tmp_path / "init.safetensors")
    evaluate = ["evaluate", str(tmp_path / "init.safetensors"), "--way", "3", "--tasks", "2", "--shot", "1"]
    ask = ["--ask", str(tiny_zoo), "--ask-share", "0", "0.5", "1", "--json", str(tmp_path / "curve.json")]
    assert main([*evaluate, *ask]) == 0
    rows = json.loads((tmp_path / "curve.json").read_text())
    assert [(row["ask_share"], row["queries_per_prediction"]) for row in rows] == [
        (0.0, 0.0),
        (0.5, pytest.approx(0.5, abs=0.02)),
        (1.0, 1.0),
    ]
    assert all(row["statistics"] == "frozen" and 0 <= row["calibration_error"] <= 1 for row in rows)
    assert [found.queries_per_prediction for found in parse(rows)] == [row["queries_per_prediction"] for row in rows]
    paid = spending(tmp_path / "asked")["queries"]
    assert main([*evaluate, *ask]) == 0
    assert spending(tmp_path / "asked")["queries"] == paid
    assert main([*evaluate, "--json", str(tmp_path / "missing" / "x.json")]) == 1
    assert "does not exist; make it first" in capsys.readouterr().err
