"""A table is data: a list of rows, each row a cell for every seed. `catalogue` has the tables there are."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dfml.adaptation.heads import Head
from dfml.bench.cells import ApiSelection, Cell, Evaluation
from dfml.bench.published import published
from dfml.bench.results import FORMAT, write_table
from dfml.bench.scales import Scale
from dfml.zoo.building import Scenario, ZooConfig

SEEDLESS = ("best-api", "api-features", "zoo")
"""they learn nothing, so there is no network to size, and one seed is all there is"""
REPLAYING = ("bidf-mkd", "white-box", "purer", "free", "real-maml")
"""methods that learn from tasks of so many shots"""
LABELS = {
    "random": "Random",
    "best-api": "Best-API",
    "single-dfkd": "Single-DFKD",
    "distill-avg": "Distill-Avg",
    "white-box": "White-box DFML",
    "vanilla": "Vanilla (replay only)",
    "bidf-mkd": "BiDf-MKD",
    "chorus": "chorus",
    "api-features": "API features (needs the APIs)",
    "real-maml": "MAML on real data",
}
ROWS = tuple(LABELS)
RELATIVES = {
    "dfme": "DFME, mean of the clones",
    "maze": "MAZE, mean of the clones",
    "model-fusion": "Model fusion (white box)",
    "purer": "PURER (white box)",
    "free": "FREE (white box)",
}
"""rows of a table of their own"""
BOTH: tuple[Head, ...] = ("finetune", "prototype")
HEADS: dict[str, tuple[Head, ...]] = {"chorus": (*BOTH, "answers")}
"""heads beyond the two that every initialisation is tested under"""
VANILLA = ("components.distil=false", "components.boundary=false")
ASK_NOBODY = ("real-maml",)
REFERENCES = ("random", "best-api", "api-features", *ASK_NOBODY)
"""rows that learn from no API"""
LARGE = ("mini-imagenet", "cub", "mh")
"""data sets with images larger than the meta model's at small scales"""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of a table, or one point of a figure."""

    cell: Cell
    label: str
    seeds: int
    matched: bool = False
    """one cell a shot, too"""
    series: str = ""
    x: float | None = None
    published: Sequence[dict[str, float]] = ()

    @property
    def cells(self) -> list[Cell]:
        """One a seed, and where shots are `matched` one a seed and shot."""
        count = 1 if self.cell.method in SEEDLESS else self.seeds
        cells = [replace(self.cell, seed=seed) for seed in range(count)]
        return [cell.for_shot(shot) for cell in cells for shot in cell.evaluation.shots] if self.matched else cells


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table, or a figure if it has an axis."""

    name: str
    title: str
    scale: str
    dataset: str
    rows: Sequence[Row]
    axis: dict[str, Any] | None = None
    seeds: int | None = None
    """what the user asked for, instead of the scale's"""

    @property
    def cells(self) -> list[Cell]:
        """Seed after seed, so that a table that is still running is whole, with wide intervals, early."""
        cells = dict.fromkeys(cell for row in self.rows for cell in row.cells)
        return sorted(cells, key=lambda cell: cell.seed)

    @property
    def content(self) -> dict[str, Any]:
        """Which cells make up the table, as it stands in its file."""
        rows = [
            {
                "row": row.cell.row,
                "label": row.label,
                "series": row.series,
                "x": row.x,
                "cells": [cell.stem for cell in row.cells],
                "published": list(row.published),
            }
            for row in self.rows
        ]
        return {
            "format": FORMAT,
            "table": self.name,
            "title": self.title,
            "scale": self.scale,
            "dataset": self.dataset,
            "axis": self.axis,
            "seeds": self.seeds,
            "rows": rows,
        }

    def save(self, folder: Path) -> None:
        """Written before the cells are run, so that the table can be drawn while they come in."""
        write_table(folder, self.content)


@dataclass(frozen=True, kw_only=True)
class Maker:
    """Makes the rows of one table at one scale on one data set."""

    scale: Scale
    dataset: str
    table: str
    seeds: int | None = None
    """what the user asked for, instead of the scale's"""

    @property
    def main(self) -> bool:
        """The tables that get all seeds and tasks."""
        return self.table in ("tab:ss", "tab:ablation", "tab:zofo") and self.dataset == self.scale.dataset

    def select(
        self, count: int | None = None, *, scenario: Scenario = "ss", **settings: Any
    ) -> tuple[ApiSelection, ...]:
        """The first `count` APIs of a zoo of this scale."""
        kind = {**self.scale.zoo, **(self.scale.mixed if scenario != "ss" else {}), **settings}
        dataset = "glyphs" if scenario == "mh" else self.dataset  # a mixed zoo has no one data set
        zoo = ZooConfig(scenario=scenario, dataset=dataset, **kind)
        return (ApiSelection(zoo=zoo, count=count or (self.scale.apis if scenario == "ss" else self.scale.mixed_apis)),)

    def row(
        self,
        name: str,
        *,
        label: str = "",
        apis: tuple[ApiSelection, ...] | None = None,
        settings: Sequence[str] = (),
        evaluation: dict[str, Any] | None = None,
        source: tuple[str, str] | None = None,
        share: bool = False,
        **more: Any,
    ) -> Row:
        """Row `name` with its recipe at this scale and `settings` on top.

        `source` is the table and row that the published number stands under, by default the same. A row that `share`s
        is evaluated as in the main tables, and so costs nothing where those have been run; what asks nobody always is.
        """
        method, extra = ("bidf-mkd", VANILLA) if name == "vanilla" else (name, ())
        preset, recipe = self.scale.recipes.get(method, (None, ()))
        chosen = self.select() if apis is None else apis
        full = self.main or share or method in ASK_NOBODY
        many = self.scale.reference_tasks if method in REFERENCES else self.scale.tasks
        tasks = many if full else self.scale.lesser_tasks
        measure = more.pop("measure", "accuracy")
        cell = Cell(
            row=name,
            method=method,
            apis=() if method in ASK_NOBODY else chosen,
            preset=preset,
            settings=_merged(recipe, self._size(method), extra, settings),
            measure=measure,
            evaluation=replace(
                Evaluation(dataset=self.dataset, tasks=tasks, heads=HEADS.get(method, BOTH)), **(evaluation or {})
            ),
        )
        seeds = self.seeds or (self.scale.seeds if self.main or share else self.scale.lesser_seeds)
        table, key = source or (self.table, name)
        found = published(table, self.dataset, key)
        matched = self.scale.matched_shots and method in REPLAYING and measure == "accuracy"
        return Row(
            cell=cell, label=label or (LABELS | RELATIVES)[name], seeds=seeds, matched=matched, published=found, **more
        )

    def _size(self, method: str) -> tuple[str, ...]:
        """The side of the meta model's images, where they are not to be as large as the data set's."""
        large = self.scale.side and self.dataset in LARGE and method not in SEEDLESS
        return (f"net.size={self.scale.side}",) if large else ()


def _merged(*groups: Sequence[str]) -> tuple[str, ...]:
    """Assignments of which a later one for the same key replaces an earlier one."""
    return tuple({item.partition("=")[0]: item for group in groups for item in group}.values())
