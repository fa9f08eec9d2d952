"""`dfml bench real`: what real APIs know of new classes, what a student heard of it, and what asking brings back.

Every row is tested on the same tasks and, but for the row `live`, judges each image by itself. Answers about the data
set's images go through ledgers in the folder of results: none is asked for twice, and a run that was cut off goes on.
"""

import hashlib
import re
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from dfml.adaptation.answer_features import api_weight, class_cosines, class_sums
from dfml.adaptation.classifier import FewShotClassifier
from dfml.apis.blackbox import BlackBox
from dfml.apis.ledger import Ledger, Purse, ledger_path
from dfml.bench.cells import digest
from dfml.bench.results import FORMAT, Results, write_table
from dfml.config import from_mapping, to_mapping
from dfml.episode import Episode
from dfml.errors import ConfigError, nearest
from dfml.evaluation.accuracy import summarise
from dfml.evaluation.metatest import TaskProtocol, describe, draw_tasks, open_parts, scorer
from dfml.evaluation.remembered import Remembered
from dfml.events import Spent
from dfml.initialisation import Initialisation
from dfml.nets import NetSpec
from dfml.nets.answer_directions import answer_directions
from dfml.nets.functional import Net
from dfml.rng import stream

SHARES = (0.0, 0.1, 0.3, 0.5, 1.0)
"""queries a prediction that the live row may spend"""
RECORD = ("dataset", "part", "way", "shot", "query", "tasks", "seed", "mean", "ci95")
"""what is kept of a meta-test's description; the rest is about heads that are not in the table"""
MEANS = ("class-means",)
NOTES = {
    "cifar-fs": "Networks trained on ImageNet or CIFAR-10 know many of these classes by name.",
    "mini-imagenet": "These are classes of ImageNet: networks trained on it have seen them, with these very images.",
    "cub": "A network trained on birds knows this kind of class, and most of the species; one on ImageNet few.",
}


class Outcome(NamedTuple):
    """What became of one task."""

    right: float  # the fraction of its queries
    asked: int = 0  # questions about its queries, of all APIs


Trial = Callable[[Episode], Sequence[Outcome]]
"""adapt to a task's support set and predict its queries: an outcome for each of a row's heads"""


class TaskDone(NamedTuple):
    """Told after each task."""

    what: str
    done: int
    """tasks of all rows that are to be run"""
    total: int
    spent: Spent


OnTask = Callable[[TaskDone], Any]


@dataclass(frozen=True, kw_only=True)
class RealTable:
    """What the table is made of, but for the APIs."""

    dataset: str
    part: Literal["val", "test"] = "val"
    way: int = 5
    shots: tuple[int, ...] = (1, 5)
    query: int = 15
    tasks: int = 300
    seed: int = 0

    def protocol(self, shot: int, head: str = "prototype") -> TaskProtocol:
        """The product's way to adapt: frozen statistics, so that a prediction depends on its image alone."""
        shared = {name: value for name, value in to_mapping(self).items() if name != "shots"}
        told = {**shared, "shot": shot, "head": {"head": head}, "inductive": True}
        return from_mapping(TaskProtocol, told, where="dfml bench real")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the table."""

    name: str
    label: str
    heads: tuple[str, ...]
    trial: Callable[[int], Trial]
    """shots -> what is done with a task"""
    apis: Sequence[Remembered] = ()
    """those that are asked when predicting"""
    weights: str = ""
    """a digest of the student's weights"""


@dataclass(frozen=True, kw_only=True)
class RealCell:
    """A row's result under its name; `config` is all that decides it."""

    row: str
    seed: int
    config: dict[str, Any]

    @property
    def stem(self) -> str:
        return f"{self.row.replace(':', '-')}-{digest(self.config)}-{self.seed}"


def run_real(
    table: RealTable,
    apis: Sequence[BlackBox],
    *,
    folder: Path,
    run: Path | None = None,
    data: Path | None = None,
    only: Sequence[str] = (),
    budget_per_api: int | None = None,
    on_task: OnTask = lambda task: None,
) -> None:
    """Run every row that is not finished, those that ask no API first, and keep each as it is done.

    `run` is a folder of `dfml learn` with the student; `only` names rows, `api` standing for those of single APIs.
    APIs that cost something are asked within `budget_per_api` only, and within the budgets of the manifest.
    """
    if budget_per_api is None and (paid := [api.spec.name for api in apis if api.spec.terms.costs]):
        raise ConfigError(
            f"{', '.join(paid)}: remote or priced, and up to {most_images(table):,} images would be sent to each; "
            f"allow that with --budget-per-api {most_images(table)} or less"
        )
    classes = [name for part in open_parts(table.dataset, table.part, data) for name in part.classes]
    results = Results(folder)
    with ExitStack() as files:
        behind = [
            Remembered(api, files.enter_context(Ledger(ledger_path(folder, api.spec.name), budget=budget)))
            for api, budget in ((api, least(budget_per_api, api.spec.terms.budget)) for api in apis)
        ]
        cells = [(row, cell_of(table, row)) for row in make_rows(table, run, behind)]
        chosen = choose([row for row, _ in cells], only)
        write_table(folder, content(table, cells))  # whole, so that other rows can be run at another time
        waiting = [(row, cell) for row, cell in cells if row in chosen and not results.finished(cell.stem)]
        each, purse = table.tasks * len(table.shots), Purse(behind)
        for number, (row, cell) in enumerate(waiting):

            def show(what: str, done: int, row: Row = row, before: int = number * each) -> None:
                spent = purse.look(*(api.spec.name for api in row.apis))
                on_task(TaskDone(what, before + done, each * len(waiting), spent))

            results.keep(cell, measure(table, row, classes, data=data, on_task=show))


def most_images(table: RealTable) -> int:
    """Images of all tasks, mirrored ones included, if none came twice."""
    return table.tasks * table.way * sum(shot + (shot == 1) + table.query for shot in table.shots)


def least(*bounds: int | None) -> int | None:
    """The smallest of the bounds there are."""
    return min((bound for bound in bounds if bound is not None), default=None)


def make_rows(table: RealTable, run: Path | None, apis: Sequence[Remembered]) -> list[Row]:
    """The rows there are for these APIs and, where there is one, for the run's student."""
    init = None if run is None else Initialisation.load(run)
    spec = NetSpec(arch="conv4", way=table.way, size=32, channels=3, width=32) if init is None else init.net
    untrained = Initialisation(Net(spec).init(stream(table.seed, "meta-model")), spec)
    rows = [student(table, untrained, ("prototype",), name="random", label="untrained")]
    if init is not None:
        label = f"the student, offline; learned from {init.provenance.get('queries', 0):,} answers"
        heads = ("prototype",) if init.expected is None else ("prototype", "answers")
        rows.append(student(table, init, heads, name="student", label=label))
    for api in apis:
        label = f"{api.spec.name} itself: {api.spec.way:,} classes, {api.spec.image[1]} pixels"
        rows.append(Row(name=f"api:{api.spec.name}", label=label, heads=MEANS, trial=partial(alone, api), apis=[api]))
    if len(apis) > 1:
        label = f"all {len(apis)}, each weighed by its answers about the support set"
        rows.append(Row(name="apis", label=label, heads=MEANS, trial=partial(together, apis), apis=apis))
    if init is not None:
        rows += [live(init, apis, learn=learn) for learn in (False, True)]
    return rows


def choose(rows: Sequence[Row], names: Sequence[str]) -> list[Row]:
    """Those that are named, or all."""
    known = list(dict.fromkeys(name for row in rows for name in (row.name, row.name.partition(":")[0])))
    for name in names:
        if name not in known:
            raise ConfigError(f"there is no row {name!r} here; {nearest(name, known)}")
    return [row for row in rows if not names or {row.name, row.name.partition(":")[0]} & set(names)]


def student(table: RealTable, init: Initialisation, heads: tuple[str, ...], *, name: str, label: str) -> Row:
    """Offline, as the product predicts."""

    def trial(shot: int) -> Trial:
        scores = [scorer(init, table.protocol(shot, head)) for head in heads]
        return lambda episode: [Outcome(score(episode)) for score in scores]

    return Row(name=name, label=label, heads=heads, trial=trial, weights=weights_digest(init))


def weights_digest(init: Initialisation) -> str:
    """A short name for a student's weights, and for what it expects of its APIs."""
    tensors = {**init.params, **({} if init.expected is None else init.expected.state_dict())}
    return hashlib.sha256(b"".join(tensors[key].numpy().tobytes() for key in sorted(tensors))).hexdigest()[:16]


def alone(api: BlackBox, shot: int) -> Trial:
    """Class means in the space of one API's answers."""

    def trial(episode: Episode) -> list[Outcome]:
        way = len(episode.classes)
        cosines = class_cosines(
            answer_directions(api(episode.query)),
            class_sums(answer_directions(api(episode.support)), episode.support_labels, way),
        )
        return [Outcome(_right(cosines, episode), len(episode.query))]

    return trial


def together(apis: Sequence[BlackBox], shot: int) -> Trial:
    """The same with all APIs, each weighed by its answers about the support set.

    A weight needs two views a class, so where there is one image it is asked about a second time, mirrored.
    """

    def trial(episode: Episode) -> list[Outcome]:
        images, labels, way = episode.support, episode.support_labels, len(episode.classes)
        if shot == 1:
            images, labels = torch.cat([images, images.flip(-1)]), labels.repeat(2)
        total = torch.zeros(len(episode.query), way)
        for api in apis:
            answers = api(images)
            sums = class_sums(answer_directions(answers), labels, way)
            weight = api_weight(answers, labels, mirrored=shot == 1)
            total += weight * class_cosines(answer_directions(api(episode.query)), sums)
        return [Outcome(_right(total, episode), len(apis) * len(episode.query))]

    return trial


def live(init: Initialisation, apis: Sequence[Remembered], *, learn: bool) -> Row:
    """The student first; APIs are asked about a share of the images, those that it is least sure of."""

    def trial(shot: int) -> Trial:
        def outcomes(episode: Episode) -> list[Outcome]:
            classifier = FewShotClassifier(init, head="prototype", apis=apis, learn_from_answers=learn)
            classifier.fit(episode.support, episode.support_labels)
            told = [classifier.set_params(ask=share).answer(episode.query) for share in SHARES]
            return [Outcome(_right(each.probabilities, episode), int(each.asked.sum())) for each in told]

        return outcomes

    how = "answers about some images help to judge the others" if learn else "each image judged by itself"
    heads = tuple(f"ask {share:g}" for share in SHARES)
    label = f"the student, then APIs where it is least sure; {how}"
    name = "live" if learn else "live-alone"
    return Row(name=name, label=label, heads=heads, trial=trial, apis=apis, weights=weights_digest(init))


def _right(scores: Tensor, episode: Episode) -> float:
    return (scores.argmax(1) == episode.query_labels).float().mean().item()


def measure(
    table: RealTable, row: Row, classes: Sequence[str], *, data: Path | None, on_task: Callable[[str, int], Any]
) -> dict[str, Any]:
    """The row on all tasks, at every number of shots."""
    start, results = time.monotonic(), []
    for place, shot in enumerate(table.shots):
        protocol, trial, outcomes = table.protocol(shot), row.trial(shot), list[Sequence[Outcome]]()
        for episode in draw_tasks(protocol, range(table.tasks), data=data):
            outcomes.append(trial(episode))
            on_task(f"{row.name}, {shot}-shot", place * table.tasks + len(outcomes))
        for head, of_head in zip(row.heads, zip(*outcomes, strict=True), strict=True):
            asked = sum(outcome.asked for outcome in of_head) / (table.tasks * table.way * table.query)
            found = describe(protocol, summarise([outcome.right for outcome in of_head]))
            kept = {name: found[name] for name in RECORD}
            results.append(kept | {"head": head, "queries_per_prediction": round(asked, 4)})
    return {
        "results": results,
        "apis": {api.spec.name: {"classes": api.spec.way, "answers on file": api.ledger.queries} for api in row.apis},
        "knows": "; ".join(known(api.spec.classes, classes) for api in row.apis[:1] if len(row.apis) == 1),
        "seconds": {"measure": round(time.monotonic() - start, 1)},
    }


def known(own: Sequence[str], classes: Sequence[str]) -> str:
    """How many of a data set's classes an API has by name: one of its own ends so, as `hermit crab` does for `crab`."""
    if all(re.fullmatch(r"n\d{8}", name) for name in classes):
        return "all, if ImageNet taught it"  # the names are WordNet's numbers, as ImageNet's folders have them
    names = [f" {_words(part)}" for name in own for part in re.split("[,()]", name)]
    return f"{sum(any(name.endswith(f' {_words(c)}') for name in names) for c in classes)} of {len(classes)}"


def _words(name: str) -> str:
    """Letters only: `002.Laysan_Albatross` is `laysan albatross`, and `Cassin's Finch` `cassin finch`."""
    return " ".join(re.findall("[a-z]+", re.sub("'s?(?![a-z])", "", name.lower()))) or "-"


def cell_of(table: RealTable, row: Row) -> RealCell:
    """Everything that decides the row's result: the tasks, the student, the APIs it asks."""
    apis = [{"name": api.spec.name, "classes": api.spec.way, "image": list(api.spec.image)} for api in row.apis]
    config = {**to_mapping(table), "heads": list(row.heads), "weights": row.weights, "apis": apis}
    config["seed_of_tasks"] = config.pop("seed")
    return RealCell(row=row.name, seed=table.seed, config=config)


def content(table: RealTable, cells: Sequence[tuple[Row, RealCell]]) -> dict[str, Any]:
    """The table as it stands in its file."""
    note = NOTES.get(table.dataset, "")
    return {
        "format": FORMAT,
        "table": "real",
        "title": "real APIs" + (f". {note}" if note else ""),
        "scale": table.part,
        "dataset": table.dataset,
        "axis": None,
        "rows": [
            {"row": row.name, "label": row.label, "series": "", "x": None, "cells": [cell.stem], "published": []}
            for row, cell in cells
        ],
    }
