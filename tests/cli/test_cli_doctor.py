"""`dfml doctor` and `dfml cache`: what a bug report needs, and a cache that does not grow for ever."""

import json
import os
import platform
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from dfml.cli import main
from dfml.data import open_dataset
from dfml.data.caches import cache_entries

DAY = 86_400


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder with an old and a new data set, and a folder of something else."""
    monkeypatch.setenv("DFML_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache" / "test-servers" / "lib").mkdir(parents=True)
    (tmp_path / "cache" / "test-servers" / "lib" / "big").write_bytes(bytes(5000))
    for name, days in (("old-train-32-ab", 40), ("new-train-32-cd", 2)):
        for suffix in (".npy", ".json"):
            file = tmp_path / "cache" / f"{name}{suffix}"
            file.write_bytes(bytes(1000))
            os.utime(file, (time.time() - days * DAY,) * 2)
    return tmp_path / "cache"


def test_the_doctor_knows_the_machine(capsys):
    assert main(["doctor", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert platform.python_version() in facts["Python"]
    assert facts["torch"].startswith(torch.__version__)
    assert facts["numpy"] == np.__version__
    assert "ExecutionProvider" in facts["onnxruntime"]


def test_the_doctor_fits_a_terminal_and_tells_no_secret(capsys, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://user:opensesame@proxy.example.org")
    monkeypatch.setenv("MODELS_TOKEN", "opensesame")
    assert main(["doctor"]) == 0
    told = capsys.readouterr().out
    assert "opensesame" not in told
    assert "bfloat16" in told


def test_the_cache_is_shown_by_what_belongs_together(cache, capsys):
    assert main(["cache", "show", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["folder"] == str(cache)
    assert [(entry["name"], entry["bytes"]) for entry in told["entries"]] == [
        ("test-servers", 5000), ("new-train-32-cd", 2000), ("old-train-32-ab", 2000)
    ]  # fmt: skip
    assert main(["cache", "show"]) == 0
    assert "9 kB in" in capsys.readouterr().out


def test_pruning_takes_what_is_old_and_nothing_else(cache, capsys):
    assert main(["cache", "prune"]) == 0
    assert "removed 1 of them, 2 kB" in capsys.readouterr().out
    assert [entry.name for entry in cache_entries()] == ["test-servers", "new-train-32-cd"]
    assert main(["cache", "prune", "--unused-for", "0"]) == 0
    assert list(cache.iterdir()) == []


def test_what_is_used_is_young(cache, capsys):
    """A data set that was decoded long ago and opened today stays."""
    images = open_dataset("glyphs", "val")
    for file in cache.glob("glyphs-*"):
        os.utime(file, (time.time() - 100 * DAY,) * 2)
    open_dataset("glyphs", "val")
    assert main(["cache", "prune"]) == 0
    assert images.path.exists()


@pytest.mark.parametrize("days", ["-1", "nan"])
def test_days_are_a_number(cache, capsys, days):
    assert main(["cache", "prune", "--unused-for", days]) == 1
    assert "0 or more" in capsys.readouterr().err


def test_no_cache_at_all(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DFML_CACHE", str(tmp_path / "nowhere"))
    assert main(["cache", "show"]) == 0
    assert main(["cache", "prune"]) == 0
    assert "removed nothing" in capsys.readouterr().out
