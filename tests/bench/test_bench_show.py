"""What is shown of results: means over seeds, the published value beside them, and the distance in intervals."""

import json

import pytest

from dfml.bench.results import COVER, FORMAT, load_table, read_tables
from dfml.bench.show import markdown, write_figures, write_latex


def cell(stem, row, queries, values):
    shared = {"dataset": "cifar-fs", "part": "test", "way": 5, "tasks": 600}
    results = [shared | {"head": head, "shot": shot, "mean": mean, "ci95": ci95} for head, shot, mean, ci95 in values]
    return {
        "format": FORMAT,
        "cell": stem,
        "row": row,
        "seed": 0,
        "queries_per_api": queries,
        "results": results,
        "measures": {},
    }


@pytest.fixture
def results(tmp_path):
    """Two seeds of one row, nothing yet of another, one level without queries."""
    cells = [
        cell("a-0", "bidf-mkd", 1000.0, [("finetune", 1, 39.0, 0.3), ("prototype", 1, 30.0, 0.5)]),
        cell("a-1", "bidf-mkd", 3000.0, [("finetune", 1, 41.0, 0.3), ("prototype", 1, 32.0, 0.5)]),
        cell("c-0", "random", 0.0, [("finetune", 1, 29.0, 0.6)]),
    ]
    published = [{"shot": 1, "mean": 35.0, "ci95": 0.4}]
    rows = [("bidf-mkd", ["a-0", "a-1"], published), ("chorus", ["b-0"], []), ("random", ["c-0"], [])]
    table = {
        "format": FORMAT,
        "table": "queries",
        "title": "Accuracy against queries",
        "scale": "laptop",
        "dataset": "cifar-fs",
        "axis": {"name": "queries per API", "log": True},
        "rows": [
            {"row": row, "label": f"5 % {row}", "series": row, "x": None, "cells": stems, "published": known}
            for row, stems, known in rows
        ],
    }
    for folder, files in (("cells", {c["cell"]: c for c in cells}), ("tables", {"laptop-cifar-fs-queries": table})):
        (tmp_path / folder).mkdir()
        for name, content in files.items():
            (tmp_path / folder / f"{name}.json").write_text(json.dumps(content))
    return tmp_path


def test_markdown_shows_means_over_seeds_and_what_is_missing(results):
    lines = markdown(read_tables(results)[0]).splitlines()
    assert lines[2] == "| row | what | queries an API | head | 1-shot | published | apart | seeds |"
    assert lines[4] == "| `bidf-mkd` | 5 % bidf-mkd | 2,000 | finetune | 40.00 ± 0.30 | 35.00 ± 0.40 | +10.0 | 2 of 2 |"
    assert lines[5] == "| `bidf-mkd` | 5 % bidf-mkd | 2,000 | prototype | 31.00 ± 0.50 |  |  | 2 of 2 |"
    assert lines[6] == "| `chorus` | 5 % chorus |  | - | - |  |  | 0 of 1 |"


def test_what_stands_beside_accuracy_is_a_column_and_an_axis(results):
    from dfml.bench.curves import curves

    told = json.loads((results / "tables" / "laptop-cifar-fs-queries.json").read_text())
    told["axis"]["beside"] = COVER
    path = results / "cells" / "a-0.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"apis": {"cover_rate": 0.75}}))
    table = load_table(told, results)
    lines = markdown(table).splitlines()
    assert lines[2].startswith("| row | what | cover rate (%) | queries an API | head |")
    assert lines[4].startswith("| `bidf-mkd` | 5 % bidf-mkd | 75 | 2,000 |"), "of the seeds that know it"
    assert lines[6].startswith("| `chorus` | 5 % chorus | - |")
    _, right = curves(table).axes
    assert right.get_ylabel() == COVER
    assert right.lines[0].get_xydata().tolist() == [[2000.0, 75.0]]


def test_latex_is_escaped(results, tmp_path):
    text = write_latex(read_tables(results)[0], tmp_path).read_text()
    assert r"bidf-mkd & 5 \% bidf-mkd & 2,000 & finetune & 40.00 $\pm$ 0.30" in text
    assert text.count(r"\\") == 5


def test_the_figure_has_points_where_there_are_queries_and_levels_where_not(results):
    from dfml.bench.curves import curves

    (table,) = read_tables(results)
    figure = curves(table)
    (axes,) = figure.axes
    assert axes.get_xscale() == "log"
    assert {text.get_text() for text in figure.legends[0].get_texts()} == {
        "bidf-mkd (finetune)",
        "bidf-mkd (prototype)",
        "random (finetune)",
    }
    (point,) = axes.containers[0].lines[0].get_xydata()
    assert point.tolist() == [2000.0, 40.0]
    png, svg = write_figures(table, results)
    assert png.stat().st_size > 1000
    assert "<svg" in svg.read_text()
