"""The paper's tables and figures, and ours, as data: each is a list of rows, each row a cell for every seed."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dfml.bench.cells import FORMAT, Cell, Draw, Evaluation
from dfml.bench.published import published
from dfml.bench.scales import Scale
from dfml.bench.zoo import Scenario, ZooConfig
from dfml.config import nearest
from dfml.errors import ConfigError
from dfml.files import write_whole

SEEDLESS = ("best-api", "api-features", "zoo")
"""nothing about them is random, so one seed is all there is"""
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
    "real-maml": "MAML on real data (ceiling)",
}
ROWS = tuple(LABELS)
VANILLA = ("components.distil=false", "components.boundary=false")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of a table, or one point of a figure."""

    cell: Cell
    label: str
    seeds: int
    series: str = ""
    x: float | None = None
    published: Sequence[dict[str, float]] = ()

    @property
    def cells(self) -> list[Cell]:
        """One a seed."""
        count = 1 if self.cell.method in SEEDLESS else self.seeds
        return [replace(self.cell, seed=seed) for seed in range(count)]


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table, or a figure if it has an axis."""

    name: str
    title: str
    scale: str
    dataset: str
    rows: Sequence[Row]
    axis: dict[str, Any] | None = None

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
            "rows": rows,
        }

    def save(self, folder: Path) -> None:
        """Written before the cells are run, so that the table can be drawn while they come in."""
        path = folder / "tables" / f"{self.scale}-{self.dataset}-{self.name.replace(':', '-')}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, (json.dumps(self.content, indent=1, ensure_ascii=False) + "\n").encode())


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
        return self.table in ("tab:ss", "tab:ablation", "tab:numberapi", "tab:zofo", "fig:apinum")

    def draw(self, count: int | None = None, *, scenario: Scenario = "ss", **settings: Any) -> tuple[Draw, ...]:
        """The first `count` APIs of a zoo of this scale."""
        kind = {**self.scale.zoo, **(self.scale.mixed if scenario != "ss" else {}), **settings}
        dataset = "glyphs" if scenario == "mh" else self.dataset  # a mixed zoo has no one data set
        zoo = ZooConfig(scenario=scenario, dataset=dataset, **kind)
        return (Draw(zoo=zoo, count=count or (self.scale.apis if scenario == "ss" else self.scale.mixed_apis)),)

    def row(
        self,
        name: str,
        *,
        label: str = "",
        apis: tuple[Draw, ...] | None = None,
        settings: Sequence[str] = (),
        evaluation: dict[str, Any] | None = None,
        source: tuple[str, str] | None = None,
        share: bool = False,
        **more: Any,
    ) -> Row:
        """Row `name` with its recipe at this scale and `settings` on top.

        `source` is the table and row that the published number stands under, by default the same. A row that `share`s
        is evaluated as in the main tables, and so costs nothing where those have been run.
        """
        method, extra = ("bidf-mkd", VANILLA) if name == "vanilla" else (name, ())
        preset, recipe = self.scale.recipes.get(method, (None, ()))
        full = self.main or share
        tasks = self.scale.tasks if full else self.scale.lesser_tasks
        measure = more.pop("measure", "accuracy")
        cell = Cell(
            row=name,
            method=method,
            apis=self.draw() if apis is None else apis,
            preset=preset,
            settings=_merged(recipe, extra, settings),
            measure=measure,
            evaluation=replace(Evaluation(dataset=self.dataset, tasks=tasks), **(evaluation or {})),
        )
        seeds = self.seeds or (self.scale.seeds if full else self.scale.lesser_seeds)
        table, key = source or (self.table, name)
        found = published(table, self.dataset, key)
        return Row(cell=cell, label=label or LABELS[name], seeds=seeds, published=found, **more)


def _merged(*groups: Sequence[str]) -> tuple[str, ...]:
    """Assignments of which a later one for the same key replaces an earlier one."""
    return tuple({item.partition("=")[0]: item for group in groups for item in group}.values())


def _methods(make: Maker, **common: Any) -> list[Row]:
    elsewhere = {"white-box": ("tab:zofo", "white-box"), "vanilla": ("tab:ablation", "vanilla")}
    sources = elsewhere if make.table == "tab:ss" else {}
    return [make.row(name, source=sources.get(name), **common) for name in ROWS]


def _ss(make: Maker) -> list[Row]:
    return _methods(make)


def _sh(make: Maker) -> list[Row]:
    return _methods(make, apis=make.draw(scenario="sh"))


def _mh(make: Maker) -> list[Row]:
    size = (f"net.size={make.scale.side}",) if make.scale.side else ()
    apis = make.draw(scenario="mh")
    rows = _methods(make, apis=apis)
    predictors = ("best-api", "api-features")
    return [row if row.cell.method in predictors else make.row(row.cell.row, apis=apis, settings=size) for row in rows]


def _ablation(make: Maker) -> list[Row]:
    return [
        make.row("vanilla"),
        make.row("bidf-mkd", label="+ BiDf-MKD", settings=VANILLA[1:], source=(make.table, "distil")),
        make.row("bidf-mkd", label="+ boundary", settings=VANILLA[:1], source=(make.table, "boundary")),
        make.row("bidf-mkd", label="+ both"),
    ]


def _zofo(make: Maker) -> list[Row]:
    return [make.row("white-box", label="first order (white box)"), make.row("bidf-mkd", label="zero order")]


def _number_api(make: Maker) -> list[Row]:
    return [
        make.row(
            "bidf-mkd",
            label=f"{count} API{'s' * (count > 1)}",
            apis=make.draw(count),
            x=count,
            series=LABELS["bidf-mkd"],
            source=("tab:numberapi", str(count)),
        )
        for count in make.scale.api_counts
    ]


def _number_query(make: Maker) -> list[Row]:
    """The paper's estimator with q directions a step, for the same number of steps."""
    exact = () if make.scale.name == "paper" else ("recovery.limit=100000", "recovery.steps=30")
    rows = [
        make.row(
            "bidf-mkd",
            label=f"q = {count}",
            settings=("recovery.estimator=sphere", "recovery.radius=0.005", f"recovery.directions={count}", *exact),
            x=count,
            series="sphere",
            source=("tab:numberquery", str(count)),
        )
        for count in make.scale.directions
    ]
    return [*rows, make.row("white-box", label="white box", series=LABELS["white-box"], share=True)]


def _ten_way(make: Maker) -> list[Row]:
    names = ("random", "best-api", "single-dfkd", "distill-avg", "bidf-mkd", "chorus", "api-features")
    apis, evaluation = make.draw(way=10), {"way": 10}
    return [make.row(name, apis=apis, evaluation=evaluation) for name in names]


def _sensitivity(make: Maker) -> list[Row]:
    return [
        make.row(
            "bidf-mkd",
            label=f"lambda_Q = {weight}",
            settings=() if weight == 1.0 else (f"recovery.boundary={weight}",),
            source=(make.table, str(weight)),
            share=weight == 1.0,
        )
        for weight in (0.1, 1.0, 10.0)
    ]


def _shots(make: Maker) -> list[Row]:
    """One line a method; its points are the shots of its results."""
    names = ("distill-avg", "bidf-mkd", "chorus")
    evaluation = {"shots": make.scale.shots}
    if make.scale.name != "paper":
        return [make.row(name, series=LABELS[name], evaluation=evaluation) for name in names]
    matched = [
        make.row(
            "bidf-mkd",
            label=f"BiDf-MKD, K = {shot}",
            series=LABELS["bidf-mkd"],
            settings=(f"replay.shot={shot}",),
            evaluation={"shots": (shot,)},
        )
        for shot in make.scale.shots
    ]
    return [make.row("distill-avg", series=LABELS["distill-avg"], evaluation=evaluation), *matched]


def _queries(make: Maker) -> list[Row]:
    """Accuracy against queries per API; rows without queries are levels to compare with."""
    rows = [make.row(name, share=True, series=LABELS[name]) for name in ("random", "white-box", "api-features")]
    for estimator in ("sphere", "antithetic", "orthogonal", "subspace"):
        radius = "2.0" if estimator == "subspace" else "0.005"
        for limit in make.scale.limits:
            rows.append(
                make.row(
                    "bidf-mkd",
                    label=f"BiDf-MKD, {estimator}, at most {limit} an image",
                    series=f"BiDf-MKD, {estimator}",
                    settings=(
                        f"recovery.estimator={estimator}",
                        f"recovery.radius={radius}",
                        "recovery.directions=4",
                        "recovery.steps=400",
                        f"recovery.limit={limit}",
                    ),
                    source=("", ""),
                )
            )
    for count in make.scale.chorus_queries:
        settings = (f"queries={count}",)
        share = settings[0] in make.scale.recipes["chorus"][1]
        rows.append(make.row("chorus", label=f"chorus, {count}", series="chorus", settings=settings, share=share))
    return rows


def _quality(make: Maker) -> list[Row]:
    """The same classes, taught to APIs from few images (weak), all images (strong), or half of them each (mixed)."""
    (strong,) = make.draw()
    weak = replace(strong, zoo=replace(strong.zoo, images_per_class=20 if make.scale.name != "smoke" else 6))
    half = strong.count // 2
    mixed = (replace(weak, count=half), replace(strong, first=half, count=strong.count - half))
    kinds = {"weak": (weak,), "mixed": mixed, "strong": (strong,)}
    return [
        make.row(
            name,
            label=f"{LABELS[name]}, {kind} APIs",
            series=LABELS[name],
            apis=apis,
            share=kind == "strong",
            source=("", ""),
        )
        for name in ("bidf-mkd", "chorus", "api-features")
        for kind, apis in kinds.items()
    ]


def _privacy(make: Maker) -> list[Row]:
    return [
        make.row(name, share=True, measure="privacy", source=("", "")) for name in ("bidf-mkd", "white-box", "chorus")
    ]


def _accuracies(make: Maker) -> list[Row]:
    cell = Cell(row="zoo", method="zoo", apis=make.draw(), measure="zoo")
    return [Row(cell=cell, label=f"APIs of {make.dataset}", seeds=1)]


TABLES: dict[str, tuple[str, Callable[[Maker], list[Row]], dict[str, Any] | None]] = {
    "tab:ss": ("API-SS: one data set, one architecture", _ss, None),
    "tab:sh": ("API-SH: one data set, three architectures", _sh, None),
    "tab:mh": ("API-MH: three data sets, three architectures", _mh, None),
    "tab:ablation": ("Components of BiDf-MKD", _ablation, None),
    "tab:zofo": ("Zero-order against true gradients", _zofo, None),
    "tab:numberapi": ("Number of APIs", _number_api, None),
    "tab:numberquery": ("Queries a gradient estimate", _number_query, None),
    "tab:dfmeta10way": ("APIs and tasks of ten classes", _ten_way, None),
    "tab:sentivity": ("Weight of the boundary term", _sensitivity, None),
    "fig:numshots": ("More shots", _shots, {"name": "shots", "log": False}),
    "fig:apinum": ("Number of APIs", _number_api, {"name": "APIs", "log": False}),
    "fig:querynum": ("Queries a gradient estimate", _number_query, {"name": "directions q", "log": False}),
    "fig:apiacc": ("Reported accuracy of the APIs", _accuracies, None),
    "fig:vix": ("Recovered images beside the nearest real ones", _privacy, None),
    "queries": ("Accuracy against queries", _queries, {"name": "queries per API", "log": True}),
    "privacy": ("Distance to the real training images", _privacy, None),
    "quality": ("Quality of the APIs", _quality, None),
}


def make_table(
    name: str, scale: Scale, *, dataset: str | None = None, seeds: int | None = None, rows: Sequence[str] = ()
) -> Table:
    """The table called `name`, or those of its `rows` that are asked for."""
    if name not in TABLES:
        raise ConfigError(f"unknown table or figure {name!r}; {nearest(name, TABLES)}")
    title, make_rows, axis = TABLES[name]
    dataset = "mh" if name == "tab:mh" else dataset or scale.dataset
    if dataset == "mh" and name != "tab:mh":
        raise ConfigError(f"{name} is about one data set; mh belongs to tab:mh alone")
    made = make_rows(Maker(scale=scale, dataset=dataset, table=name, seeds=seeds))
    for row in rows:
        known = {one.cell.row for one in made}
        if row not in known:
            raise ConfigError(f"{name} has no row {row!r}; {nearest(row, known)}")
    if rows:
        made = [row for row in made if row.cell.row in rows]
    return Table(name=name, title=title, scale=scale.name, dataset=dataset, rows=made, axis=axis)
