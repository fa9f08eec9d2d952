"""Cells side by side: what is measured is what `evaluate` measures, failures stay alone, finished cells are kept."""

from dataclasses import replace

import pytest

from dfml.bench.cells import ApiSelection, Cell, Evaluation
from dfml.bench.results import Results
from dfml.bench.running import CellDone, Place, run_cells
from dfml.bench.zoos import Zoos
from dfml.evaluation.metatest import TaskProtocol, meta_test
from dfml.evaluation.transductive import HeadConfig
from dfml.zoo.building import ZooConfig, build_zoo

ZOO = ZooConfig(apis=2, width=4, epochs=1, images_per_class=10)
CELL = Cell(
    row="random",
    method="random",
    apis=(ApiSelection(zoo=ZOO, count=2),),
    settings=("net.width=4",),
    evaluation=Evaluation(tasks=6, shots=(1,)),
)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    list(build_zoo(folder / "zoos" / "some", ZOO))
    return Place(Results(folder / "results"), folder / "runs", Zoos(folder / "zoos"), None)


def outcomes(cells, place):
    return {event.cell.row: event.failure for event in run_cells(cells, place) if isinstance(event, CellDone)}


def test_a_failed_cell_is_a_sentence_and_stops_nobody(place):
    wrong = replace(CELL, row="broken", settings=("net.widht=4",))
    found = outcomes([wrong, CELL], place)
    assert found["random"] is None
    assert "did you mean 'width'" in found["broken"]
    assert place.results.failure(wrong.stem).read_text().strip() == found["broken"]

    cell = place.results.load(CELL.stem)
    assert (cell["queries"], cell["apis"]["count"], cell["config"]["settings"]) == (0, 2, ["net.width=4"])
    for result in cell["results"]:
        protocol = TaskProtocol(tasks=6, shot=1, head=HeadConfig(head=result["head"]))
        same = meta_test(place.runs / CELL.run_name / "init.safetensors", protocol, workers=1)
        assert (result["mean"], result["ci95"]) == (round(same.mean, 3), round(same.ci95, 3))

    before = place.results.path(CELL.stem).read_bytes()
    assert outcomes([CELL], place) == {}, "what is finished is not run again"
    assert place.results.path(CELL.stem).read_bytes() == before


def test_a_zoo_is_found_by_what_it_is_and_asked_for_where_it_is_missing(place):
    assert place.zoos.missing([ApiSelection(zoo=replace(ZOO, apis=77), first=1, count=1)]) == []
    other = replace(ZOO, epochs=2)
    wanted = place.zoos.missing([ApiSelection(zoo=other, count=2), ApiSelection(zoo=other, first=2, count=3)])
    assert wanted == [replace(other, apis=5)]
    halves = (ApiSelection(zoo=ZOO, count=1), ApiSelection(zoo=ZOO, first=1, count=1))
    assert [api.spec.name for api in place.zoos.apis(halves)] == ["glyphs-000", "glyphs-001"]
    assert place.zoos.describe(halves) == place.zoos.describe(CELL.apis)
