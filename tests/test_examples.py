"""The scripts in examples/ do what their first lines say, with a student that is small and soon done."""

import re
import runpy
import sys
import threading
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from PIL import Image

import dfml
from dfml.apis.ledger import spending
from dfml.apis.loading import load_apis
from dfml.apis.manifest import read_manifest
from dfml.cli import main
from dfml.serving.hosted import Hosted, ServeConfig
from dfml.serving.http import Server

FOLDER = Path(__file__).parent.parent / "examples"
METHOD = FOLDER / "own_method.py"


@pytest.fixture
def example(tmp_path, monkeypatch, quick_chorus, capsys):
    """`example(name, *arguments)` runs a script in an empty folder: what it printed."""
    monkeypatch.chdir(tmp_path)

    def run(name: str, *arguments: object) -> str:
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
        return capsys.readouterr().out

    return run


@pytest.mark.parametrize("name", [path.stem for path in FOLDER.glob("*.py")])
def test_every_example_has_a_test_here(name):
    assert f"test_{name}" in globals()


def test_forest(example):
    shares = [int(share) for share in re.findall(r": (\d+) % of 200 pictures", example("forest"))]
    assert len(shares) == 2
    assert min(shares) > 40, "chance is 25 %"
    assert spending("run-forest/taught")["queries"] == 2000
    assert spending("run-forest/untrained")["queries"] == 0


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_onnx_file(example):
    assert "'night'" in example("onnx_file")
    session = onnxruntime.InferenceSession("classifier.onnx")
    (answer,) = session.run(None, {session.get_inputs()[0].name: np.ones((1, 3, 32, 32), np.float32)})
    assert np.allclose(np.asarray(answer).sum(), 1, atol=1e-5)


def test_served_model(example, tiny_zoo):
    zoo = Hosted(load_apis(tiny_zoo), ServeConfig())
    with Server(zoo) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        told = example("served_model", server.url)
        server.shutdown()
    assert f"3 models at {server.url}" in told
    assert "1500 of at most 1500 queries" in told
    assert zoo.stats.to_json()["answered"] == 1500, "the server's own count"
    assert read_manifest(Path("apis.toml")).entries.keys() == read_manifest(tiny_zoo).entries.keys()


def test_own_photos(example, tiny_zoo, tmp_path):
    rng = np.random.default_rng(0)
    for name, low in {"night": 0, "day": 150}.items():
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(3):
            pixels = rng.integers(low, low + 100, (40, 50, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{number}.png")
    (tmp_path / "new").mkdir()
    Image.fromarray(np.full((20, 20, 3), 250, np.uint8)).save(tmp_path / "new" / "noon.png")
    assert re.match(r"noon.png: (day|night) \(\d+ %\)", example("own_photos", tiny_zoo, "photos", "new"))
    assert (tmp_path / "photo-classifier" / "classifier.safetensors").exists()


def test_own_method(tiny_zoo, tmp_path):
    """From the command line; the budget is kept to the query, and the network is not the one it began with."""
    small = ["--set", "steps=5", "--set", "net.width=4"]
    begun, taught = tmp_path / "begun", tmp_path / "taught"
    assert main(["learn", str(tiny_zoo), "--method", str(METHOD), "--budget", "100", *small, "--out", str(taught)]) == 0
    assert {api["queries"] for api in spending(taught)["apis"].values()} == {33}
    dfml.learn(tiny_zoo, begun, method=str(METHOD), settings=["steps=0", "net.width=4", "queries=33"])
    before, after = (dfml.Initialisation.load(folder).params["blocks.0.conv.weight"] for folder in (begun, taught))
    assert not before.equal(after)
    code = METHOD.read_text().partition("@dataclass")[2].splitlines()
    assert sum(map(bool, code)) <= 40, "it is shown as a method in 40 lines"
