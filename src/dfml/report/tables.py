"""What `dfml bench` found, read from its tables and cells: for every row the mean over seeds, beside the published."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from dfml.errors import ArtifactError
from dfml.report.accuracy import Evaluation, Score, mean_score, parse

FORMAT = 1
PAPERS_HEADS = ("finetune", "direct")
"""heads that the published values were measured under"""


@dataclass(frozen=True)
class Row:
    """One row of a table under one head."""

    label: str
    head: str
    series: str
    seeds: int
    queries_per_api: float | None
    x: float | None
    scores: Mapping[int, Score]  # by shots
    published: Mapping[int, Score]


@dataclass(frozen=True)
class Table:
    """A table or figure of the bench."""

    name: str
    title: str
    scale: str
    dataset: str
    axis: Mapping[str, Any] | None
    rows: tuple[Row, ...]
    measures: tuple[tuple[str, Mapping[str, float]], ...]  # label and other numbers, where there are some
    missing: int  # cells that are not finished
    tasks: tuple[int, ...]
    seconds: float
    versions: tuple[str, ...]

    @property
    def shots(self) -> list[int]:
        return sorted({shot for row in self.rows for shot in (*row.scores, *row.published)})

    @property
    def heads(self) -> list[str]:
        return list(dict.fromkeys(row.head for row in self.rows if row.scores))


def is_bench(folder: Path) -> bool:
    """Whether `dfml bench --out` wrote it."""
    return any((folder / "tables").glob("*.json"))


def read_tables(folder: Path) -> list[Table]:
    """Every table in a results folder, with the cells that are finished."""
    return [_table(path, folder / "cells") for path in sorted((folder / "tables").glob("*.json"))]


def _table(path: Path, cells: Path) -> Table:
    told = _read(path)
    rows: list[Row] = []
    measures, used, missing = [], list[dict[str, Any]](), 0
    for row in told["rows"]:
        found = [_read(file) for stem in row["cells"] if (file := cells / f"{stem}.json").is_file()]
        missing += len(row["cells"]) - len(found)
        used += found
        rows += _rows(row, found)
        if numbers := _measures([cell.get("measures") or {} for cell in found]):
            measures.append((str(row["label"]), numbers))
    evaluations = [e for cell in used for e in parse(cell.get("results"))]
    return Table(
        name=str(told["table"]),
        title=str(told["title"]),
        scale=str(told["scale"]),
        dataset=str(told["dataset"]),
        axis=told.get("axis"),
        rows=tuple(rows),
        measures=tuple(measures),
        missing=missing,
        tasks=tuple(sorted({e.tasks for e in evaluations})),
        seconds=sum(sum((cell.get("seconds") or {}).values()) for cell in used),
        versions=tuple(sorted({" ".join(filter(None, (cell.get("version"), cell.get("code")))) for cell in used})),
    )


def _rows(row: Mapping[str, Any], cells: Sequence[Mapping[str, Any]]) -> list[Row]:
    """One row a head. The published values stand beside the paper's head, or alone while nothing is finished."""
    published = {int(p["shot"]): Score(float(p["mean"]), float(p["ci95"] or 0)) for p in row.get("published", ())}
    by_head: dict[str, list[Evaluation]] = {}
    for evaluation in (e for cell in cells for e in parse(cell.get("results"))):
        by_head.setdefault(evaluation.head, []).append(evaluation)
    queries = [float(cell["queries_per_api"]) for cell in cells if cell.get("queries_per_api") is not None]
    spent = fmean(queries) if queries else None
    x = spent if row.get("x") is None else float(row["x"])
    beside = next((head for head in by_head if head in PAPERS_HEADS), next(iter(by_head), ""))

    def one(head: str, evaluations: Sequence[Evaluation]) -> Row:
        shots = sorted({e.shot for e in evaluations})
        scores = {shot: mean_score([e.score for e in evaluations if e.shot == shot]) for shot in shots}
        label, series = str(row["label"]), str(row.get("series") or "")
        return Row(label, head, series, len(cells), spent, x, scores, published if head == beside else {})

    if not by_head:
        return [one("", ())] if published else []
    return [one(head, evaluations) for head, evaluations in by_head.items()]


def _measures(found: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Means over seeds of the numbers that are not accuracies; of a list of numbers, the mean of it."""
    numbers: dict[str, list[float]] = {}
    for measures in found:
        for name, value in measures.items():
            if isinstance(value, list) and value and all(isinstance(v, int | float) for v in value):
                numbers.setdefault(f"mean of {len(value)} {name}", []).append(fmean(value))
            elif isinstance(value, int | float):
                numbers.setdefault(name, []).append(float(value))
    return {name: fmean(values) for name, values in numbers.items()}


def _read(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text())
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ArtifactError(
            f"{path} is damaged: {error}; delete it and repeat the bench, which goes on there"
        ) from None
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise ArtifactError(f"{path} is no result of dfml bench in format {FORMAT}; move it away")
    return value
