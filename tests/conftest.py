"""Fixtures that every room's tests share."""

import os
from pathlib import Path

import pytest
import torch

from dfml.rng import stream


@pytest.fixture(autouse=True, scope="session")
def _one_thread_from_the_start() -> None:
    """Before the fixtures of modules, too: sums depend on the number of threads."""
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)  # whatever the test before did


@pytest.fixture
def rng() -> torch.Generator:
    return stream(0, "tests")


@pytest.fixture
def no_long_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """What failed is sent again at once."""
    from dfml.apis.remote import patience

    monkeypatch.setattr(patience, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(patience, "LONGEST_PAUSE", 0.002)


@pytest.fixture
def no_long_rests(no_long_pauses: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """And an API that failed again and again is tried again soon."""
    from dfml.apis.remote import patience
    from dfml.methods.chorus import asking

    monkeypatch.setattr(patience.Gate, "COOLDOWN", 0.01)
    monkeypatch.setattr(asking, "REST", 0.05)


@pytest.fixture(scope="session")
def bfloat16() -> None:
    """For tests that compute in bfloat16 on the CPU: they skip where that would end pytest."""
    from dfml.hardware import bfloat16_fault

    if fault := bfloat16_fault():
        pytest.skip(f"NO BFLOAT16: {fault}")


@pytest.fixture(scope="session")
def real_data() -> Path:
    """A folder that holds cifar-fs/, mini-imagenet/ and cub/ in the layouts of their public downloads."""
    folder = os.environ.get("DFML_TEST_DATA")
    if not folder:
        pytest.skip("NO REAL DATA: set DFML_TEST_DATA to a folder with cifar-fs/, mini-imagenet/ and cub/")
    return Path(folder)


@pytest.fixture(scope="session")
def tiny_zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three small classifiers of glyphs."""
    from dfml.zoo.building import ZooConfig, build_zoo

    folder = tmp_path_factory.mktemp("tiny") / "zoo"
    list(build_zoo(folder, ZooConfig(apis=3, way=3, width=4, epochs=1, images_per_class=10), workers=1))
    return folder
