"""What a run folder tells: who was asked, what it cost, how learning went."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dfml.apis.ledger import spending
from dfml.evaluation.records import Evaluation, read_evaluations
from dfml.initialisation import caveat
from dfml.runs import read_config

Happening = Mapping[str, Any]
"""one line of events.jsonl"""


@dataclass(frozen=True)
class ApiStory:
    """One API as the run met it."""

    name: str
    classes: tuple[str, ...]
    accuracy: float | None  # as reported
    queries: int
    money: float | None  # USD, where a price is known
    unusable: int
    in_doubt: int
    label_entropy: float | None  # bits by which its labels of chorus's pictures vary
    weight: float | None  # what chorus made of its answers
    reached: float | None  # the part of its support sets that it gives the class they are meant for
    failures: int

    @property
    def most_bits(self) -> float:
        """What `label_entropy` is where all its classes are called equally often."""
        return math.log2(max(1, len(self.classes)))

    @property
    def dropped(self) -> float | None:
        """The share of its answers that taught nothing; None where it gave none."""
        paid = self.queries + self.unusable
        return None if not paid else 1.0 if self.weight == 0 else self.unusable / paid

    @property
    def why_dropped(self) -> str:
        """In words of ours: a server's may hold what is nobody's business."""
        if self.weight == 0:
            return "its answers do not depend on the image as a classifier's do"
        return f"{self.unusable:,} were no probabilities of its classes" if self.unusable else ""


@dataclass(frozen=True)
class RunStory:
    """One run, from its own files alone."""

    name: str
    method: str
    finished: bool
    seconds: float
    starts: int  # 1 for a run in one go
    queries: int
    apis: tuple[ApiStory, ...]
    events: tuple[Happening, ...]
    evaluations: tuple[Evaluation, ...]
    config: Mapping[str, Any]
    folder: Path

    @property
    def caveat(self) -> str | None:
        """What has to be said of a run that is not data-free."""
        return caveat(self.config)

    @property
    def money(self) -> float | None:
        """USD spent on the APIs whose price is known, if there are any."""
        known = [api.money for api in self.apis if api.money is not None]
        return sum(known) if known else None

    @property
    def queries_per_api(self) -> float:
        return self.queries / max(1, len(self.apis))

    @property
    def headline(self) -> Evaluation | None:
        """The accuracy that stands on top: the product's on test classes where there is one, never the best of several.

        It is chosen by what was measured, not by what came out: test before validation, the product's protocol before
        the field's, no queries before some, more shots before fewer; of those the first.
        """

        def rank(e: Evaluation) -> tuple[bool, bool, bool, int]:
            return e.part != "test", "frozen" not in e.head, e.queries_per_prediction is not None, -e.shot

        return min(self.evaluations, key=rank, default=None)

    def curve(self, event: str, value: str) -> list[tuple[float, float]]:
        """(iteration, value) of all events of one kind; an iteration that was redone after a stop counts once."""
        points = {
            int(e["iteration"]): float(e[value])
            for e in self.events
            if e["event"] == event and e.get(value) is not None and "iteration" in e
        }
        return sorted(points.items())


def is_run(folder: Path) -> bool:
    """Whether `dfml learn` wrote it."""
    return (folder / "config.toml").is_file()


def read_run(folder: Path) -> RunStory:
    """The story of one run, finished or not."""
    config = read_config(folder)
    events, spent = _events(folder / "events.jsonl"), spending(folder)
    names = [str(name) for name in config.get("apis", spent["apis"])]
    return RunStory(
        name=folder.resolve().name,
        method=str(config.get("method", "unknown")),
        finished=(folder / "init.safetensors").is_file(),
        seconds=_seconds(events),
        starts=max(1, sum(e["event"] == "LearningStarted" for e in events)),
        queries=int(spent["queries"]),
        apis=tuple(_api(name, events, spent["apis"].get(name, {})) for name in names),
        events=tuple(events),
        evaluations=tuple(read_evaluations(folder)),
        config=config,
        folder=folder,
    )


def _api(name: str, events: Iterable[Happening], spent: Mapping[str, int]) -> ApiStory:
    mine = [e for e in events if e.get("api") == name]
    kinds = ("ApiJoined", "ApiHeard", "ApiWeighed", "ApiFailed")
    told = {kind: [e for e in mine if e["event"] == kind] for kind in kinds}
    joined = told["ApiJoined"][-1] if told["ApiJoined"] else {}
    queries, price = spent.get("queries", 0), joined.get("price")
    reached = [float(e["support_reached"]) for e in mine if e["event"] == "Visited"]
    return ApiStory(
        name=name,
        classes=tuple(map(str, joined.get("classes", ()))),
        accuracy=joined.get("accuracy"),
        queries=queries,
        money=None if price is None else (queries + spent.get("unusable", 0)) * float(price) / 1000,
        unusable=spent.get("unusable", 0),
        in_doubt=spent.get("in_doubt", 0),
        label_entropy=told["ApiHeard"][-1]["label_entropy"] if told["ApiHeard"] else None,
        weight=told["ApiWeighed"][-1]["weight"] if told["ApiWeighed"] else None,
        reached=sum(reached) / len(reached) if reached else None,
        failures=len(told["ApiFailed"]),
    )


def _events(path: Path) -> list[dict[str, Any]]:
    """Every whole line; a run that was killed may have left half of its last one."""
    events = []
    for line in path.read_text().splitlines() if path.is_file() else ():
        try:
            event = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(event, dict) and "event" in event:
            events.append(event)
    return events


def _seconds(events: Iterable[Happening]) -> float:
    """Time at work: from each start to the last thing that happened before the next start."""
    total, begun, last = 0.0, None, 0.0
    for event in events:
        if event["event"] in ("ApiJoined", "Planned"):  # come before the start they belong to
            continue
        if event["event"] == "LearningStarted":
            total += last - begun if begun is not None else 0.0
            begun = float(event["time"])
        last = float(event["time"])
    return total + (last - begun if begun is not None else 0.0)
