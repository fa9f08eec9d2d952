"""`dfml bench real`: what real APIs know of new classes, what a student heard of it, and what asking brings back.

Every row is tested on the same tasks and, but for the row `live`, judges each image by itself. Answers about the data
set's images go through ledgers in the folder of results: none is asked for twice, and a run that was cut off goes on.
"""

import re
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from dfml.apis.blackbox import BlackBox
from dfml.apis.ledger import Ledger, Purse, ledger_path
from dfml.bench.real_cells import cell_of, content
from dfml.bench.real_rows import Outcome, RealTable, Row, choose, make_rows
from dfml.bench.results import Results, write_table
from dfml.errors import ConfigError
from dfml.evaluation.accuracy import summarise
from dfml.evaluation.metatest import describe, draw_tasks, open_parts
from dfml.evaluation.remembered import Remembered
from dfml.events import Spent

RECORD = ("dataset", "part", "way", "shot", "query", "tasks", "seed", "mean", "ci95")
"""what is kept of a meta-test's description; the rest is about heads that are not in the table"""


class TaskDone(NamedTuple):
    """Told after each task."""

    what: str
    done: int
    """tasks of all rows that are to be run"""
    total: int
    spent: Spent


OnTask = Callable[[TaskDone], Any]


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
        write_table(folder, content(table, cells, chosen, folder))
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
