"""What `dfml bench` writes and the report reads: cells, and tables with those of their cells that are finished."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Protocol

import dfml
from dfml.errors import ArtifactError, ConfigError
from dfml.evaluation.records import Evaluation, Score, mean_score, parse
from dfml.files import write_whole

FORMAT = 1
PAPERS_HEADS = ("finetune", "direct")
"""heads that the published values were measured under"""
HEADS = ("finetune", "prototype", "prototype+finetune", "answers", "direct", "class-means")
"""the order in which they are shown"""
COVER, TIME = "cover rate (%)", "core seconds of learning"
"""what some tables show beside accuracy: the part of the train classes that the APIs know, and the price in time"""


class Kept(Protocol):
    """What a result is kept under: its row, its seed, and all that decides it, of which its name is made."""

    @property
    def row(self) -> str: ...
    @property
    def seed(self) -> int: ...
    @property
    def config(self) -> dict[str, Any]: ...
    @property
    def stem(self) -> str: ...


class Results:
    """The folder that `dfml bench --out` fills: one file a cell, whole or not there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, stem: str) -> Path:
        return cell_path(self.folder, stem)

    def failure(self, stem: str) -> Path:
        return self.folder / "failed" / f"{stem}.txt"

    def finished(self, stem: str) -> bool:
        return self.path(stem).exists()

    def load(self, stem: str) -> dict[str, Any]:
        """A finished cell."""
        return read_json(self.path(stem))

    def keep(self, cell: Kept, outcome: dict[str, Any]) -> None:
        """Write a finished cell whole; one that is there already stays as it is."""
        if self.finished(cell.stem):
            return
        content = {
            "format": FORMAT,
            "cell": cell.stem,
            "row": cell.row,
            "seed": cell.seed,
            "config": cell.config,
            "version": dfml.__version__,
            "code": code_version(),
            **outcome,
        }
        self.path(cell.stem).parent.mkdir(parents=True, exist_ok=True)
        write_whole(self.path(cell.stem), (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())
        self.failure(cell.stem).unlink(missing_ok=True)

    def keep_failure(self, cell: Kept, sentence: str) -> None:
        self.failure(cell.stem).parent.mkdir(parents=True, exist_ok=True)
        self.failure(cell.stem).write_text(sentence + "\n")


def write_table(folder: Path, content: Mapping[str, Any]) -> None:
    """A table's content, in a file named by what it is."""
    path = table_path(folder, content)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())


def table_path(folder: Path, content: Mapping[str, Any]) -> Path:
    """Where a table is kept in a folder of results."""
    name = f"{content['scale']}-{content['dataset']}-{content['table'].replace(':', '-')}"
    return folder / "tables" / f"{name}.json"


def code_version() -> str:
    """The commit of the source, with a + if it was changed since; empty where there is no repository."""
    here = Path(dfml.__file__).parent

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", "-C", str(here), *arguments], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    try:
        return git("rev-parse", "--short", "HEAD") + ("+" if git("status", "--porcelain", "--", str(here)) else "")
    except (OSError, subprocess.CalledProcessError):
        return ""


@dataclass(frozen=True)
class Line:
    """One row of a table with what has come in for it."""

    row: str
    label: str
    series: str
    place: float | None
    """on the table's axis, where that is not the queries"""
    finished: Sequence[dict[str, Any]]
    """cells, one a seed"""
    expected: int
    published: Mapping[int, Score]  # by shots

    @property
    def queries(self) -> float | None:
        """Queries an API, mean over seeds."""
        found = [float(cell["queries_per_api"]) for cell in self.finished if cell.get("queries_per_api") is not None]
        return fmean(found) if found else None

    def aside(self, name: str) -> float | None:
        """`COVER` or `TIME`, mean over the seeds that know it; a run that was taken up again does not know its time."""
        source, key, unit = {COVER: ("apis", "cover_rate", 100.0), TIME: ("processor_seconds", "learn", 1.0)}[name]
        found = [value for cell in self.finished if (value := (cell.get(source) or {}).get(key)) is not None]
        return unit * fmean(found) if found else None

    @property
    def x(self) -> float | None:
        return self.queries if self.place is None else self.place

    @property
    def evaluations(self) -> list[Evaluation]:
        return [evaluation for cell in self.finished for evaluation in parse(cell.get("results"))]

    @property
    def heads(self) -> list[str]:
        present = {evaluation.head for evaluation in self.evaluations}
        return sorted(present, key=lambda head: (HEADS.index(head) if head in HEADS else len(HEADS), head))

    @property
    def shots(self) -> list[int]:
        return sorted({evaluation.shot for evaluation in self.evaluations})

    def value(self, head: str, shot: int) -> Score | None:
        """Over the seeds that are there."""
        found = [e.score for e in self.evaluations if (e.head, e.shot) == (head, shot)]
        return mean_score(found) if found else None

    def beside(self, head: str, shot: int) -> Score | None:
        """The published value, where it was measured under `head`; also where nothing is finished yet."""
        return self.published.get(shot) if head in PAPERS_HEADS or not self.heads else None

    @property
    def measures(self) -> dict[str, float]:
        """Means over seeds of the numbers that are not accuracies; of a list of numbers, the mean of it."""
        numbers: dict[str, list[float]] = {}
        for name, value in (pair for cell in self.finished for pair in (cell.get("measures") or {}).items()):
            if isinstance(value, list) and value and all(isinstance(v, int | float) for v in value):
                numbers.setdefault(f"mean of {len(value)} {name}", []).append(fmean(value))
            elif isinstance(value, int | float):
                numbers.setdefault(name, []).append(float(value))
        return {name: fmean(values) for name, values in numbers.items()}


@dataclass(frozen=True)
class ResultTable:
    """A table or figure of the bench."""

    name: str
    title: str
    scale: str
    dataset: str
    axis: Mapping[str, Any] | None
    lines: Sequence[Line]
    folder: Path

    @property
    def stem(self) -> str:
        return f"{self.scale}-{self.dataset}-{self.name.replace(':', '-')}"

    @property
    def aside(self) -> str | None:
        """What stands beside accuracy in every line, if anything."""
        return (self.axis or {}).get("beside")

    @property
    def shots(self) -> list[int]:
        return sorted({shot for line in self.lines for shot in line.shots})

    @property
    def heads(self) -> list[str]:
        return list(dict.fromkeys(head for line in self.lines for head in line.heads))

    @property
    def missing(self) -> int:
        """Cells that are not finished."""
        return sum(line.expected - len(line.finished) for line in self.lines)

    @property
    def tasks(self) -> list[int]:
        return sorted({evaluation.tasks for line in self.lines for evaluation in line.evaluations})

    @property
    def seconds(self) -> float:
        return sum(sum((cell.get("seconds") or {}).values()) for line in self.lines for cell in line.finished)

    @property
    def versions(self) -> list[str]:
        """Of dfml, by which its cells were made."""
        cells = [cell for line in self.lines for cell in line.finished]
        return sorted({" ".join(filter(None, (cell.get("version"), cell.get("code")))) for cell in cells})


def is_bench(folder: Path) -> bool:
    """Whether `dfml bench --out` wrote it."""
    return any((folder / "tables").glob("*.json"))


def read_tables(folder: Path) -> list[ResultTable]:
    """Every table that was begun in a folder of results."""
    if not is_bench(folder):
        raise ConfigError(f"{folder} holds no tables; run `dfml bench tab:ss --out {folder}` first")
    return [load_table(read_json(file), folder) for file in sorted((folder / "tables").glob("*.json"))]


def load_table(told: Mapping[str, Any], folder: Path) -> ResultTable:
    """A table's content with those of its cells in `folder` that are finished."""
    lines = [
        Line(
            row["row"],
            row["label"],
            row["series"],
            row["x"],
            [read_json(cell) for stem in row["cells"] if (cell := cell_path(folder, stem)).exists()],
            len(row["cells"]),
            {entry["shot"]: Score(entry["mean"], entry["ci95"] or 0.0) for entry in row["published"]},
        )
        for row in told["rows"]
    ]
    return ResultTable(told["table"], told["title"], told["scale"], told["dataset"], told["axis"], lines, folder)


def cell_path(folder: Path, stem: str) -> Path:
    """Where a cell is kept in a folder of results."""
    return folder / "cells" / f"{stem}.json"


def read_json(path: Path) -> dict[str, Any]:
    """A table or cell."""
    try:
        content: dict[str, Any] = json.loads(path.read_text())
    except (OSError, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ArtifactError(f"{path} is damaged ({error}); delete it and run the bench again") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ArtifactError(f"{path} is no result of dfml bench in format {FORMAT}; delete it and run the bench again")
    return content
