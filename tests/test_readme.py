"""The README's Python is run as it stands."""

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

README = Path(__file__).parent.parent / "README.md"
BLOCKS = re.findall(r"<!-- run by tests/test_readme.py -->\n```python\n(.*?)```", README.read_text(), re.DOTALL)


@pytest.fixture
def world(tmp_path, monkeypatch):
    """What the snippets take for granted: a zoo, a few labelled images, a forest."""
    from dfml.zoo.building import ZooConfig, build_zoo

    monkeypatch.chdir(tmp_path)
    list(build_zoo(tmp_path / "zoo", ZooConfig(apis=2, way=3, width=4, epochs=1, images_per_class=10)))
    rng = np.random.default_rng(0)
    images, labels = rng.random((6, 3, 32, 32), dtype=np.float32), np.array(["a", "b"] * 3)
    forest = RandomForestClassifier(5, random_state=0).fit(images.reshape(6, -1), labels)
    return {"images": images, "labels": labels, "forest": forest}


def test_there_are_snippets():
    assert len(BLOCKS) == 2


def test_learning_and_adapting(world):
    exec(BLOCKS[0].replace("budget=2000", 'budget=2000, settings=["distil.steps=20"]'), world)
    assert world["classifier"].classes_.tolist() == ["a", "b"]


def test_any_function_is_an_api(world):
    import torch

    exec(BLOCKS[1], world)
    answer = world["api"](torch.from_numpy(world["images"]))
    assert np.allclose(answer.numpy(), world["forest"].predict_proba(world["images"].reshape(6, -1)), atol=1e-6)
