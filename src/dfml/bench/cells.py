"""A cell: the smallest piece of a table that can be run, kept and shared. Its content is its name."""

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Any, Literal

from dfml.adaptation.heads import Head
from dfml.config import to_mapping
from dfml.zoo.building import ZooConfig

Measure = Literal["accuracy", "privacy", "zoo"]
REVISIONS = {"bidf-mkd": 2, "white-box": 2, "single-dfkd": 2, "distill-avg": 2, "chorus": 5}
"""by method: counts the changes of meaning that no setting shows, so that older cells are not taken for new ones"""


@dataclass(frozen=True, kw_only=True)
class ApiSelection:
    """Some APIs of a zoo. Every API depends on its number alone, so a larger zoo of the same kind serves as well."""

    zoo: ZooConfig
    first: int = 0
    count: int = 10

    @property
    def kind(self) -> dict[str, Any]:
        """What sets the zoo apart from the default one, as plain JSON: a draw from a larger zoo is the same draw."""
        default = to_mapping(ZooConfig())
        return {k: v for k, v in to_mapping(self.zoo).items() if k != "apis" and v != default.get(k)}


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The tasks a row is tested on, and how it adapts to them."""

    dataset: str = "glyphs"
    way: int = 5
    shots: tuple[int, ...] = (1, 5)
    tasks: int = 600
    heads: tuple[Head, ...] = ("finetune", "prototype")
    part: Literal["val", "test"] = "test"


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One row, one seed: what is learned from which APIs, and what is measured of it."""

    row: str
    method: str
    """a method of `dfml learn`, or one that only the bench has: best-api, api-features, real-maml, zoo"""
    apis: tuple[ApiSelection, ...]
    """none for real-maml, which asks nobody"""
    preset: str | None = None
    settings: tuple[str, ...] = ()
    budget_per_api: int | None = None
    measure: Measure = "accuracy"
    evaluation: Evaluation = Evaluation()
    seed: int = 0

    def for_shot(self, shot: int) -> "Cell":
        """The same for tasks of `shot` shots alone, in replay as in the test."""
        kept = [setting for setting in self.settings if not setting.startswith("replay.shot=")]
        evaluation = replace(self.evaluation, shots=(shot,))
        return replace(self, settings=(*kept, f"replay.shot={shot}"), evaluation=evaluation)

    @property
    def config(self) -> dict[str, Any]:
        """Everything that decides the result but the seed, as plain JSON."""
        content = to_mapping(self)
        content["apis"] = [to_mapping(draw) | {"zoo": draw.kind} for draw in self.apis]
        content["settings"] = sorted(self.settings)
        content["revision"] = REVISIONS.get(self.method, 1)
        for name in ("row", "seed"):
            del content[name]
        return content

    @property
    def stem(self) -> str:
        """The name of the cell's file."""
        return f"{self.row}-{digest(self.config)}-{self.seed}"

    @property
    def run_name(self) -> str:
        """The name of the run that learns; cells that measure the same run in several ways share it."""
        learned = {key: value for key, value in self.config.items() if key not in ("measure", "evaluation")}
        return f"{self.method}-{digest(learned)}-{self.seed}"


def digest(content: dict[str, Any]) -> str:
    """A short name for what is in a piece of plain JSON."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8]
