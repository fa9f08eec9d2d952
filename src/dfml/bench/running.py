"""Cells, run: learn, measure, write one JSON each; side by side, resumable, and none stops the others."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from dfml.apis.blackbox import BlackBox
from dfml.apis.ledger import spending
from dfml.bench.cells import Cell
from dfml.bench.predictors import Predictor, api_features, best_api
from dfml.bench.privacy import measure_privacy
from dfml.bench.real_maml import RealMamlConfig, meta_train, plan
from dfml.bench.results import Results
from dfml.bench.zoos import Zoos
from dfml.config import override
from dfml.engine.choice import Engine, Local
from dfml.engine.pool import Finished, Report
from dfml.episode import Episode
from dfml.errors import ConfigError, DfmlError
from dfml.evaluation.accuracy import summarise
from dfml.evaluation.metatest import TaskProtocol, describe, draw_tasks, input_shape, open_parts, scorer
from dfml.evaluation.transductive import HeadConfig
from dfml.events import Event, LearningStarted, Replayed, Step, Visited
from dfml.hardware import CPU, Hardware
from dfml.initialisation import Initialisation
from dfml.learning import learn
from dfml.methods import find_method
from dfml.methods.meta_model import most_common

PREDICTORS = {"best-api": (best_api, "direct"), "api-features": (api_features, "class-means")}
"""rows without an initialisation, and what stands in the place of their head"""


class Place(NamedTuple):
    """Where cells find what they need and leave what they make."""

    results: Results
    runs: Path
    zoos: Zoos
    data: Path | None
    hardware: Hardware = CPU


class Job(NamedTuple):
    """Cells that share one run, in turn, as a worker process needs them."""

    cells: tuple[Cell, ...]
    place: Place


@dataclass(frozen=True)
class CellProgress:
    """Event: the fraction of a job that is done."""

    cell: Cell
    done: float


@dataclass(frozen=True)
class CellDone:
    """Event: a cell is finished, or failed for a reason told in one sentence."""

    cell: Cell
    failure: str | None


def run_cells(
    cells: Sequence[Cell], place: Place, *, workers: int | None = None, engine: Engine | None = None
) -> Iterator[CellProgress | CellDone]:
    """Run what is not finished yet; `place` must have all zoos, and every machine of `engine` must see it."""
    place.results.folder.mkdir(parents=True, exist_ok=True)
    jobs: dict[str, list[Cell]] = {}
    for cell in dict.fromkeys(cells):
        if not place.results.finished(cell.stem):
            jobs.setdefault(cell.run_name, []).append(cell)
    items = [Job(tuple(group), place) for group in jobs.values()]
    for event in (engine or Local()).side_by_side(run_job, items, workers=place.hardware.workers(workers)):
        job = items[event.index]
        if isinstance(event, Finished):
            yield from (CellDone(cell, failure) for cell, failure in zip(job.cells, event.result, strict=True))
        else:
            yield CellProgress(job.cells[0], event.done)


def run_job(job: Job, report: Report) -> list[str | None]:
    """Run the cells of a job; for each, None or why it failed."""
    if not job.place.results.folder.is_dir():
        raise ConfigError(
            f"{job.place.results.folder} is not to be seen on a Ray node; put results, work, zoos and data into "
            "folders that all machines share, under the same name"
        )
    failures: list[str | None] = []
    for number, cell in enumerate(job.cells):
        if job.place.results.finished(cell.stem):  # by another command, meanwhile
            failures.append(None)
            continue
        try:
            outcome = run_cell(cell, job.place, partial(_report_part, report, number, len(job.cells)))
            job.place.results.keep(cell, outcome | job.place.hardware.notes)
            failures.append(None)
        except DfmlError as error:
            failures.append(str(error))
        except Exception as error:  # a mistake of ours must not cost the other cells
            failures.append(f"{type(error).__name__}: {error}")
        if failures[-1] is not None:
            job.place.results.keep_failure(cell, failures[-1])
    return failures


def _report_part(report: Report, number: int, total: int, done: float) -> None:
    report((number + done) / total)


def run_cell(cell: Cell, place: Place, report: Report) -> dict[str, Any]:
    """What is measured of one cell, as it stands in its file."""
    about = place.zoos.describe(cell.apis)
    if cell.method == "zoo":
        accuracies = [entry.accuracy for entry in place.zoos.entries(cell.apis).values()]
        return _outcome(about, measures={"accuracies": accuracies})
    if cell.method in PREDICTORS:
        return _predict(cell, place, about, report)
    begun_before = (place.runs / cell.run_name).exists()
    started, processor = time.monotonic(), time.process_time()
    init, queries = _learned(cell, place, lambda done: report(done / 2))
    learned, processor = time.monotonic(), time.process_time() - processor
    results: list[dict[str, Any]] = []
    measures: dict[str, Any] = {}
    if cell.measure == "privacy":
        measures = measure_privacy(cell, place.runs / cell.run_name, place.zoos, place.data, place.results.folder)
    else:
        heads: dict[str, HeadConfig] = {head: HeadConfig(head=head) for head in cell.evaluation.heads}
        scorers = {head: scorer(init, TaskProtocol(head=config), place.hardware) for head, config in heads.items()}
        shape = input_shape(init)
        results = _evaluate(cell, scorers, heads, place.data, shape, lambda done: report(0.5 + done / 2))
    seconds = {"learn": learned - started, "evaluate": time.monotonic() - learned}
    outcome = _outcome(about, queries=queries, seconds=seconds, results=results, measures=measures)
    # What was learned here before is not in this process's time, so then nothing is told.
    return outcome if begun_before else outcome | {"processor_seconds": {"learn": round(processor, 1)}}


def _learned(cell: Cell, place: Place, report: Report) -> tuple[Initialisation, int]:
    """The cell's initialisation, from its run folder where that is finished already, and its price."""
    folder = place.runs / cell.run_name
    if cell.method == "real-maml":
        return _meta_trained(cell, folder, place, report), 0
    total = 1

    def on_event(event: Event) -> None:
        nonlocal total
        if isinstance(event, LearningStarted):
            total = max(1, event.iterations)
        elif isinstance(event, Visited | Replayed):
            report(min(1.0, (event.iteration + 1) / total))
        elif isinstance(event, Step) and event.stage == "distilling" and event.done % 50 == 0:
            report(event.done / event.total)

    hardware, zoos = place.hardware, place.zoos
    open_boxes = find_method(cell.method).NEEDS_WEIGHTS
    apis: Sequence[BlackBox] = (
        zoos.white_boxes(cell.apis, device=hardware.device) if open_boxes else zoos.apis(cell.apis)
    )
    init = learn(
        apis,
        folder,
        method=cell.method,
        preset=cell.preset,
        settings=[*_papers_network(apis), *cell.settings],
        budget_per_api=cell.budget_per_api,
        seed=cell.seed,
        resume=True,
        device=str(hardware.device),
        precision=hardware.precision,
        on_event=on_event,
    )
    return init, spending(folder)["queries"]


def _papers_network(apis: Sequence[BlackBox]) -> list[str]:
    """The paper's meta model: four blocks of 32 filters, for images as large as most APIs take."""
    return ["net.arch=conv4", "net.width=32", f"net.size={most_common([api.spec.image[1] for api in apis])}"]


def _meta_trained(cell: Cell, folder: Path, place: Place, report: Report) -> Initialisation:
    file = folder / "init.safetensors"
    if not file.exists():
        parts = open_parts(cell.evaluation.dataset, "train", place.data)
        config = plan(override(RealMamlConfig(), cell.settings), parts, way=cell.evaluation.way)
        folder.mkdir(parents=True, exist_ok=True)
        init = meta_train(
            config,
            parts,
            seed=cell.seed,
            hardware=place.hardware,
            checkpoint=folder / "checkpoint.safetensors",
            on_step=lambda step, *_: report((step + 1) / config.iterations),
        )
        init.save(file)
    return Initialisation.load(file)


def _predict(cell: Cell, place: Place, about: dict[str, Any], report: Report) -> dict[str, Any]:
    make, head = PREDICTORS[cell.method]
    started = time.monotonic()
    predictor = make(place.zoos.apis(cell.apis))
    results = _evaluate(cell, {head: partial(_hits, predictor)}, {}, place.data, None, report)
    return _outcome(about, seconds={"learn": 0.0, "evaluate": time.monotonic() - started}, results=results)


def _hits(predictor: Predictor, episode: Episode) -> float:
    return (predictor(episode).argmax(1) == episode.query_labels).float().mean().item()


def _evaluate(
    cell: Cell,
    scorers: Mapping[str, Callable[[Episode], float]],
    heads: Mapping[str, HeadConfig],
    data: Path | None,
    shape: tuple[int, int, int] | None,
    report: Report,
) -> list[dict[str, Any]]:
    """Every head on every task of every shot; the tasks are read once for all heads."""
    cfg = cell.evaluation
    results = []
    for place, shot in enumerate(cfg.shots):
        protocol = TaskProtocol(dataset=cfg.dataset, part=cfg.part, way=cfg.way, shot=shot, tasks=cfg.tasks)
        fractions: dict[str, list[float]] = {head: [] for head in scorers}
        for task, episode in enumerate(draw_tasks(protocol, range(cfg.tasks), data=data, shape=shape)):
            for head, score in scorers.items():
                fractions[head].append(score(episode))
            report((place + (task + 1) / cfg.tasks) / len(cfg.shots))
        for head, values in fractions.items():
            result = describe(protocol, summarise(values)) | {"head": head}
            if head not in heads:  # no head of ours: these settings mean nothing
                result = {k: v for k, v in result.items() if k not in ("centre", "lr", "steps", "statistics")}
            results.append(result)
    return results


def _outcome(
    about: dict[str, Any],
    *,
    queries: int = 0,
    seconds: Mapping[str, float] | None = None,
    results: Sequence[dict[str, Any]] = (),
    measures: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    return {
        "apis": about,
        "queries": queries,
        "queries_per_api": round(queries / max(1, about["count"]), 1),
        "seconds": {name: round(value, 1) for name, value in (seconds or {}).items()},
        "results": list(results),
        "measures": dict(measures or {}),
    }
