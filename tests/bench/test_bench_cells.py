"""A cell is its content; a finished one is never written again."""

from dataclasses import replace

import pytest

from dfml.bench.cells import REVISIONS, ApiSelection, Cell, Evaluation
from dfml.bench.results import Results
from dfml.errors import ArtifactError
from dfml.zoo.building import ZooConfig

CELL = Cell(
    row="bidf-mkd", method="bidf-mkd", apis=(ApiSelection(zoo=ZooConfig(), count=3),), settings=("a.b=1", "c=2")
)


def test_the_name_follows_from_the_content():
    assert CELL.stem == replace(CELL, settings=("c=2", "a.b=1")).stem, "the order of settings means nothing"
    larger = replace(CELL, apis=(ApiSelection(zoo=ZooConfig(apis=100), count=3),))
    assert CELL.stem == larger.stem, "three APIs of a larger zoo are the same three"
    for other in (
        replace(CELL, settings=("a.b=1",)),
        replace(CELL, apis=(ApiSelection(zoo=ZooConfig(), count=4),)),
        replace(CELL, apis=(ApiSelection(zoo=ZooConfig(epochs=1), count=3),)),
        replace(CELL, evaluation=Evaluation(tasks=10)),
        replace(CELL, seed=1),
    ):
        assert other.stem != CELL.stem


def test_what_a_method_meant_before_has_another_name(monkeypatch):
    before = CELL.stem, CELL.run_name
    monkeypatch.setitem(REVISIONS, CELL.method, REVISIONS[CELL.method] + 1)
    assert CELL.stem != before[0]
    assert CELL.run_name != before[1], "nor is a run of before taken up again"


def test_cells_that_measure_the_same_run_share_it():
    assert replace(CELL, evaluation=Evaluation(tasks=10)).run_name == CELL.run_name
    assert replace(CELL, measure="privacy").run_name == CELL.run_name
    assert replace(CELL, seed=1).run_name != CELL.run_name


def test_a_finished_cell_stays_as_it_is(tmp_path):
    results = Results(tmp_path)
    results.keep_failure(CELL, "no luck")
    results.keep(CELL, {"queries": 1})
    results.keep(CELL, {"queries": 2})
    assert results.load(CELL.stem)["queries"] == 1
    assert not results.failure(CELL.stem).exists(), "what succeeded has no failure any more"


@pytest.mark.parametrize("content", ["", "[]", '{"format": 99}'])
def test_a_damaged_result_is_named(tmp_path, content):
    results = Results(tmp_path)
    results.keep(CELL, {})
    results.path(CELL.stem).write_text(content)
    with pytest.raises(ArtifactError, match="delete it and run the bench again"):
        results.load(CELL.stem)
