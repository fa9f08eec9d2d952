"""What `dfml bench real` keeps: a file a row, known by all that decides its result, and the table of these."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dfml.bench.cells import digest
from dfml.bench.real_rows import RealTable, Row
from dfml.bench.results import FORMAT, cell_path, read_json, table_path
from dfml.config import to_mapping

REVISIONS: dict[str, int] = {}
"""by kind of row: counts the changes of its rules, such as those of `adaptation.answer_features`, that no setting
shows, so that older cells are not taken for new ones. Kinds that are not named are at 1, which no cell mentions"""
ORDER = ("random", "student", "api", "apis", "live-alone", "live")
NOTES = {
    "cifar-fs": "Networks trained on ImageNet or CIFAR-10 know many of these classes by name.",
    "mini-imagenet": "These are classes of ImageNet: networks trained on it have seen them, with these very images.",
    "cub": "A network trained on birds knows this kind of class, and most of the species; one on ImageNet few.",
}


@dataclass(frozen=True, kw_only=True)
class RealCell:
    """A row's result under its name; `config` is all that decides it."""

    row: str
    seed: int
    config: dict[str, Any]

    @property
    def stem(self) -> str:
        return f"{self.row.replace(':', '-')}-{digest(self.config)}-{self.seed}"


def cell_of(table: RealTable, row: Row) -> RealCell:
    """Everything that decides the row's result: the tasks, the student, the APIs it asks, and the rules."""
    apis = [{"name": api.spec.name, "classes": api.spec.way, "image": list(api.spec.image)} for api in row.apis]
    config = {**_tasks(table), "heads": list(row.heads), "weights": row.weights, "apis": apis}
    if (revision := REVISIONS.get(row.kind, 1)) > 1:
        config["revision"] = revision
    return RealCell(row=row.name, seed=table.seed, config=config)


def content(
    table: RealTable, cells: Sequence[tuple[Row, RealCell]], chosen: Collection[Row], folder: Path
) -> dict[str, Any]:
    """The table as it is to stand in its file in `folder`.

    Rows of earlier runs stay, on the same tasks and by the same rules; one that is `chosen` now takes the place of its
    earlier self. That of several APIs is another one where these are others.
    """
    note = NOTES.get(table.dataset, "")
    told = {
        "format": FORMAT,
        "table": "real",
        "title": "real APIs" + (f". {note}" if note else ""),
        "scale": table.part,
        "dataset": table.dataset,
        "axis": None,
    }
    file = table_path(folder, told)
    lines = [line for line in (read_json(file)["rows"] if file.exists() else []) if _holds(line, table, folder)]
    for row, cell in cells:
        line = {"row": row.name, "label": row.label, "series": "", "x": None, "cells": [cell.stem], "published": []}
        earlier = [place for place, old in enumerate(lines) if old["row"] == row.name]
        own = {api.spec.name for api in row.apis}
        same = [place for place in earlier if _asked(lines[place], folder) in (None, own)]
        if row in chosen and same:
            lines[same[0]] = line
        elif row in chosen or not earlier:
            lines.append(line)
    return {**told, "rows": sorted(lines, key=lambda line: ORDER.index(_kind(line)))}


def _tasks(table: RealTable) -> dict[str, Any]:
    """What every row is tested on."""
    told = to_mapping(table)
    told["seed_of_tasks"] = told.pop("seed")
    return told


def _holds(line: dict[str, Any], table: RealTable, folder: Path) -> bool:
    """Whether an earlier row, if it is finished, was tested on these tasks by today's rules."""
    found = _finished(line, folder)
    if found is None:
        return True
    same_tasks = all(found.get(name) == value for name, value in _tasks(table).items())
    return same_tasks and found.get("revision", 1) == REVISIONS.get(_kind(line), 1)


def _asked(line: dict[str, Any], folder: Path) -> set[str] | None:
    """The names of the APIs of an earlier row; None where it is not finished."""
    found = _finished(line, folder)
    return None if found is None else {api["name"] for api in found["apis"]}


def _finished(line: dict[str, Any], folder: Path) -> dict[str, Any] | None:
    """What decided the result of an earlier row; None where there is none."""
    file = cell_path(folder, line["cells"][0])
    config: dict[str, Any] | None = read_json(file)["config"] if file.exists() else None
    return config


def _kind(line: dict[str, Any]) -> str:
    kind: str = line["row"].partition(":")[0]
    return kind
