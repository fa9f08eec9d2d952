"""Results of `dfml evaluate --json`, and the mean over seeds."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple


class Score(NamedTuple):
    """Accuracy in percent with the half-width of its 95 % interval."""

    mean: float
    ci95: float

    @property
    def text(self) -> str:
        return f"{self.mean:.1f} ± {self.ci95:.1f}"

    def apart(self, other: "Score") -> float:
        """How many intervals lie between the two: beyond 1 in size they differ by more than chance explains."""
        width: float = (self.ci95**2 + other.ci95**2) ** 0.5
        return (self.mean - other.mean) / width if width else 0.0


@dataclass(frozen=True)
class Evaluation:
    """One accuracy, and what it was measured on."""

    dataset: str
    part: str
    way: int
    shot: int
    tasks: int
    head: str
    """with all that sets it apart, such as `prototype, centred`"""
    score: Score
    queries_per_prediction: float | None = None
    """of a live classifier"""
    usd_per_query: float | None = None
    """for 1,000, where prices are known"""

    @property
    def column(self) -> str:
        return f"{self.shot}-shot"


def parse(results: object) -> list[Evaluation]:
    """The evaluations in a JSON value; none, if it is something else."""
    if not isinstance(results, list):
        return []
    needed = {"dataset", "part", "way", "shot", "tasks", "head", "mean", "ci95"}
    return [_evaluation(r) for r in results if isinstance(r, dict) and needed <= r.keys()]


def read_evaluations(folder: Path) -> list[Evaluation]:
    """All that `dfml evaluate --json` left in a run folder, under whatever names."""
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            found += parse(json.loads(path.read_text()))
        except (json.JSONDecodeError, UnicodeDecodeError):
            continue  # not ours
    return list(dict.fromkeys(found))


def mean_score(scores: Sequence[Score]) -> Score:
    """Over seeds: the mean of the accuracies, and the mean width of the runs' own intervals."""
    return Score(sum(s.mean for s in scores) / len(scores), sum(s.ci95 for s in scores) / len(scores))


def shots(evaluations: Iterable[Evaluation]) -> list[str]:
    """The columns of a table of these, few shots first."""
    return [f"{shot}-shot" for shot in sorted({e.shot for e in evaluations})]


def _evaluation(result: dict[str, Any]) -> Evaluation:
    head = str(result["head"])
    if result.get("centre"):
        head += ", centred"
    if result.get("statistics") == "frozen":
        head += ", frozen statistics"
    score = Score(float(result["mean"]), float(result["ci95"]))
    asked, usd = result.get("queries_per_prediction"), result.get("usd_per_1000_predictions")
    if asked is not None:
        asked, head = float(asked), f"{head}, {float(asked):.2g} queries a prediction"
    price = float(usd) / asked if usd is not None and asked else None
    dataset, part = str(result["dataset"]), str(result["part"])
    way, shot, tasks = (int(result[name]) for name in ("way", "shot", "tasks"))
    return Evaluation(dataset, part, way, shot, tasks, head, score, asked, price)
