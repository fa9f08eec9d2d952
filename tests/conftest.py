"""Fixtures that every room's tests share."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, settings

from dfml.rng import stream

# A busy machine is slow, which is nobody's fault.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


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


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A real Chromium: the one that DFML_TEST_BROWSER names, which then must work, or one on the path."""
    named = os.environ.get("DFML_TEST_BROWSER")
    program = named or shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not program:
        pytest.skip("NO BROWSER: install Chromium, or name one in DFML_TEST_BROWSER, to look at pages")
    if named is None:
        pytest.importorskip("playwright", reason="NO PLAYWRIGHT: pip install playwright, to look at pages")
    from playwright.sync_api import sync_playwright

    quiet = ["--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
    camera = ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]  # a moving test picture
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=quiet + camera)
        yield chromium
        chromium.close()


@pytest.fixture
def quick_chorus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever leaves the settings open gets a small student, which is soon taught."""
    from dfml.methods import chorus

    usual = chorus.PRESETS["default"]
    small = replace(usual, distil=replace(usual.distil, steps=20), net=replace(usual.net, width=8))
    monkeypatch.setitem(chorus.PRESETS, "default", small)
