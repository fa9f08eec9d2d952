"""Results of the bench, from files in the shape that it writes."""

import json

import pytest

from dfml.bench.results import is_bench, read_tables
from dfml.errors import ArtifactError
from dfml.report.figures import bench_figures


def cell(folder, stem, *, queries, means, measures=None):
    results = [
        {"dataset": "d", "part": "test", "way": 5, "shot": s, "tasks": 600, "head": h, "mean": m, "ci95": 1.0}
        for (h, s), m in means.items()
    ]
    told = {"format": 1, "cell": stem, "queries_per_api": queries, "seconds": {"learn": 50.0, "evaluate": 10.0}}
    told |= {"version": "0.1.0", "code": "abc", "results": results, "measures": measures or {}}
    (folder / "cells" / f"{stem}.json").write_text(json.dumps(told))


def row(label, cells, *, published=(), series="", x=None):
    return {"row": label, "label": label, "series": series, "x": x, "cells": cells, "published": list(published)}


def table(folder, rows, **changes):
    told = {"format": 1, "table": "tab:x", "title": "X", "scale": "smoke", "dataset": "d", "axis": None, "rows": rows}
    (folder / "tables" / f"smoke-d-{len(list((folder / 'tables').iterdir()))}.json").write_text(
        json.dumps(told | changes)
    )


@pytest.fixture
def results(tmp_path):
    (tmp_path / "cells").mkdir()
    (tmp_path / "tables").mkdir()
    return tmp_path


def test_a_row_is_the_mean_over_finished_seeds(results):
    for seed, mean in enumerate((40.0, 44.0)):
        cell(results, f"m-{seed}", queries=100 * (seed + 1), means={("prototype", 1): 30, ("finetune", 1): mean})
    published = [{"shot": 1, "mean": 35.0, "ci95": 0.5}]
    table(results, [row("m", ["m-0", "m-1", "m-2"], published=published)])
    assert is_bench(results)
    (read,) = read_tables(results)
    (line,) = read.lines
    assert line.value("finetune", 1) == (42.0, 1.0)
    assert line.queries == 150
    assert line.beside("finetune", 1) == (35.0, 0.5)
    assert line.beside("prototype", 1) is None, "the paper's value was measured under its own head"
    assert (read.missing, read.seconds, read.tasks, read.versions) == (1, 120.0, [600], ["0.1.0 abc"])


def test_published_values_stand_while_nothing_is_finished(results):
    table(results, [row("m", ["m-0"], published=[{"shot": 5, "mean": 47.58, "ci95": None}]), row("n", ["n-0"])])
    (read,) = read_tables(results)
    first, second = read.lines
    assert (first.heads, first.beside("", 5), second.beside("", 5)) == ([], (47.58, 0.0), None)
    assert read.missing == 2


def test_a_figure_has_a_line_for_each_series_and_a_level_for_what_asks_nothing(results):
    for name, queries, mean in (("a", 10, 30), ("b", 1000, 50), ("r", 0, 25)):
        cell(results, name, queries=queries, means={("prototype", 1): mean})
    rows = [row("few", ["a"], series="chorus"), row("many", ["b"], series="chorus"), row("random", ["r"])]
    table(results, rows, axis={"name": "queries per API", "log": True})
    (chart,) = bench_figures(read_tables(results)[0])
    assert chart.legend == (("s0", "chorus"), ("s1 level", "random"))
    assert "chorus rises from 30 at 10 to 50 at 1k." in chart.svg
    assert "random: 25 throughout." in chart.svg


def test_other_measures_are_means_over_seeds(results):
    cell(results, "p-0", queries=None, means={}, measures={"distance": 1.0, "accuracies": [0.5, 1.0]})
    cell(results, "p-1", queries=None, means={}, measures={"distance": 3.0, "note": "words"})
    table(results, [row("p", ["p-0", "p-1"])])
    (read,) = read_tables(results)
    assert read.lines[0].measures == {"distance": 2.0, "mean of 2 accuracies": 0.75}


@pytest.mark.parametrize("content", ["{", "[]", '{"format": 2}'])
def test_foreign_files_get_one_sentence(results, content):
    (results / "tables" / "x.json").write_text(content)
    with pytest.raises(ArtifactError, match=r"x\.json is (damaged|no result)"):
        read_tables(results)
