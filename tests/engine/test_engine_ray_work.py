"""Work on a Ray cluster: results, progress, losses; zoos and bench cells come out as at home."""

import json
import os
import signal
import sys
import types

import pytest
import torch

from dfml.cli import main
from dfml.engine.choice import open_engine
from dfml.engine.pool import Finished, WorkProgress
from dfml.errors import ConfigError, DfmlError
from dfml.runtime import cores
from dfml.zoo.building import ZooConfig, build_zoo

pytestmark = pytest.mark.ray


def square(item, report):
    report(0.5)
    return item * item, os.getpid(), torch.get_num_threads(), cores()


def complain(item, report):
    raise ConfigError("this cannot work; do it otherwise")


def blunder(item, report):
    raise KeyError("nothing")


def die_once(folder, report):
    """Killed in the middle as long as the folder is not there."""
    report(0.5)
    if not folder.exists():
        folder.mkdir()
        os.kill(os.getpid(), signal.SIGKILL)
    return "done"


def die(item, report):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture(autouse=True, scope="module")
def _work_travels():
    """Nodes do not look into the folder of this file."""
    cloudpickle = pytest.importorskip("ray.cloudpickle", reason="NO RAY: install the extra, or run `make test-ray`")
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


def test_every_item_is_worked_on_in_another_process_of_one_thread_and_reported(cluster):
    with open_engine("ray") as engine:
        assert engine.workers == 2
        events = list(engine.side_by_side(square, [1, 2, 3], equip=lambda item: item + 10))
        assert list(engine.side_by_side(square, [])) == []
    finished = {event.index: event.result for event in events if isinstance(event, Finished)}
    assert {index: result[0] for index, result in finished.items()} == {0: 121, 1: 144, 2: 169}
    assert all(result[1] != os.getpid() and result[2:] == (1, 1) for result in finished.values())
    assert {(event.index, event.done) for event in events if isinstance(event, WorkProgress)} == {
        (i, 0.5) for i in range(3)
    }


def test_failures_arrive_as_themselves(cluster):
    with open_engine("ray") as engine:
        with pytest.raises(ConfigError, match="this cannot work; do it otherwise"):
            list(engine.side_by_side(complain, [1]))
        with pytest.raises(KeyError, match="nothing"):
            list(engine.side_by_side(blunder, [1]))


def test_nodes_without_dfml_are_one_sentence(cluster, monkeypatch):
    """As a node without our code sees it: work from a module that it cannot import."""
    monkeypatch.setattr(square, "__module__", "dfml_of_the_future")
    future = types.ModuleType("dfml_of_the_future")
    vars(future)["square"] = square
    monkeypatch.setitem(sys.modules, "dfml_of_the_future", future)
    sentence = r"a Ray node cannot run dfml .*on all machines"
    with open_engine("ray") as engine, pytest.raises(ConfigError, match=sentence):
        list(engine.side_by_side(square, [1]))


def test_a_lost_worker_is_replaced_until_that_is_hopeless(cluster, tmp_path):
    with open_engine("ray") as engine:
        events = list(engine.side_by_side(die_once, [tmp_path / "a", tmp_path / "b"]))
        assert {event.index: event.result for event in events if isinstance(event, Finished)} == {0: "done", 1: "done"}
        with pytest.raises(DfmlError, match=r"a Ray worker was lost 5 times in a row .*; run again to resume"):
            list(engine.side_by_side(die, [1]))


def files(folder):
    return {file.relative_to(folder): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def test_a_zoo_has_the_same_bits(cluster, tiny_zoo, tmp_path):
    config = ZooConfig(apis=3, way=3, width=4, epochs=1, images_per_class=10)
    with open_engine("ray") as engine:
        list(build_zoo(tmp_path / "zoo", config, engine=engine))
    assert files(tmp_path / "zoo") == files(tiny_zoo)


def test_a_table_of_the_bench_has_the_same_cells(cluster, tmp_path):
    def cells(engine):
        out = tmp_path / engine
        command = ["bench", "tab:ss", "--rows", "random", "chorus", "--out", str(out / "results")]
        assert main([*command, "--work", str(out / "work"), "--engine", engine]) == 0
        found = {}
        for path in (out / "results" / "cells").glob("*.json"):
            told = json.loads(path.read_text())
            for times in ("seconds", "processor_seconds"):
                told.pop(times, None)
            found[path.name] = told
        return found

    local = cells("local")
    assert len(local) == 2
    assert cells("ray") == local
