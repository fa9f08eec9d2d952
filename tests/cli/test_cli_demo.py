"""The demo: what it shows is true, on scripts that nothing was chosen on; and its bad input."""

import json
import sys

import numpy as np
import pytest
from PIL import Image

from dfml.cli import main
from dfml.cli.demo_real import _shipped, _split
from dfml.errors import DataError


@pytest.mark.slow
def test_untrained_is_below_bidf_mkd_is_below_chorus(tmp_path, capsys):
    """Each outside the other's interval, at both numbers of shots; a second time nothing is done again."""
    assert main(["demo", "--out", str(tmp_path / "demo")]) == 0
    means = {}
    for method in ("random", "bidf-mkd", "chorus"):
        results = json.loads((tmp_path / "demo" / method / "evaluation.json").read_text())
        assert {result["part"] for result in results} == {"test"}
        for result in results:
            means.setdefault(result["shot"], []).append((result["mean"], result["ci95"]))
    for shot, rows in means.items():
        untrained, paper, ours = rows
        assert untrained[0] + untrained[1] < paper[0] - paper[1], shot
        assert paper[0] + paper[1] < ours[0] - ours[1], shot
    assert (tmp_path / "demo" / "report.html").exists()
    spent = (tmp_path / "demo" / "chorus" / "events.jsonl").read_text()
    assert main(["demo", "--out", str(tmp_path / "demo")]) == 0
    assert (tmp_path / "demo" / "chorus" / "events.jsonl").read_text() == spent


def test_own_pictures_need_the_real_network(tmp_path, capsys):
    assert main(["demo", "--pictures", str(tmp_path)]) == 1
    assert "add --real" in capsys.readouterr().err


def test_what_is_missing_is_said_before_anything_is_trained(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("dfml.cli.demo.find_spec", lambda name: None if name == "jinja2" else sys)
    assert main(["demo", "--out", str(tmp_path / "demo")]) == 1
    assert "the demo needs jinja2; pip install 'dfml[onnx,report]'" in capsys.readouterr().err
    assert not (tmp_path / "demo").exists()


def test_half_of_a_class_are_examples_but_no_more_than_five():
    support, query = _split(["a"] * 3 + ["b"] * 20)
    assert support == [0, 3, 4, 5, 6, 7]
    assert sorted(support + query) == list(range(23))
    with pytest.raises(DataError, match="'b' has one picture"):
        _split(["a", "a", "b"])


@pytest.mark.real
@pytest.mark.parametrize("own", [True, False])
def test_a_live_classifier_over_a_real_network(own, tmp_path, capsys):
    """A network that has seen cats and cups tells pictures of them apart better than a student of its answers."""
    pytest.importorskip("efficientnet_lite_pytorch", reason="NO LITE0: run `make test-real`, which installs it")
    arguments = ["demo", "--real", "--out", str(tmp_path / "demo")]
    if own:
        images, labels = _shipped(64)
        for number, (image, label) in enumerate(zip(images, labels, strict=True)):
            (tmp_path / "pictures" / label).mkdir(parents=True, exist_ok=True)
            pixels = np.ascontiguousarray(image.permute(1, 2, 0).numpy())
            Image.fromarray(pixels).save(tmp_path / "pictures" / label / f"{number:03d}.png")
        arguments += ["--pictures", str(tmp_path / "pictures")]
    assert main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    start = next(place for place, line in enumerate(lines) if "queries a picture" in line)
    alone, _, asked = (float(line.split()[2]) for line in lines[start + 1 : start + 4])
    assert asked > alone
    assert asked > 90
