"""Ways from APIs to an initialisation, one file each, found by name."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol

from dfml.apis.blackbox import BlackBox
from dfml.apis.ledger import Metered
from dfml.config import nearest
from dfml.engine.choice import Engine, Local
from dfml.errors import ConfigError
from dfml.events import Emit
from dfml.hardware import CPU, Hardware
from dfml.initialisation import Initialisation
from dfml.runs import RunFolder

METHODS = {
    "chorus": "chorus",
    "bidf-mkd": "bidf_mkd",
    "white-box": "white_box",
    "single-dfkd": "single_dfkd",
    "distill-avg": "distill_avg",
    "random": "random_init",
}


@dataclass(frozen=True)
class Workplace:
    """What a method is given besides its settings."""

    apis: Sequence[Metered]
    run: RunFolder
    seed: int
    emit: Emit
    budget: int | None = None
    """queries to all APIs together"""
    budget_per_api: int | None = None
    hardware: Hardware = CPU
    engine: Engine = field(default_factory=Local)
    """where the APIs are asked"""

    @property
    def queries(self) -> int:
        """What has been spent, by this process and those before."""
        return sum(api.ledger.queries for api in self.apis)


class Method(Protocol):
    """A module of this package."""

    PRESETS: dict[str, Any]
    """settings by name; "default" is there always"""

    def plan(self, config: Any, apis: Sequence[BlackBox], *, budget: int | None, budget_per_api: int | None) -> Any:
        """`config` with everything filled in that follows from the APIs and the budget; refuses what cannot work."""
        ...

    def cost(self, config: Any, apis: Sequence[BlackBox]) -> list[int]:
        """Queries that a planned run sends to each API, at most."""
        ...

    def run(self, config: Any, place: Workplace) -> Initialisation:
        """Learn; resumes by itself from what the run folder holds."""
        ...


def within_budgets(queries: Sequence[int], apis: Sequence[BlackBox]) -> list[int]:
    """The queries meant for each API, or what its own budget leaves of them."""
    budgets = [api.spec.terms.budget for api in apis]
    return [most if budget is None else min(most, budget) for most, budget in zip(queries, budgets, strict=True)]


def find_method(name: str) -> Method:
    """The method called `name`."""
    if name not in METHODS:
        raise ConfigError(f"unknown method {name!r}; {nearest(name, METHODS)}")
    module: Any = import_module(f"dfml.methods.{METHODS[name]}")
    return module  # type: ignore[no-any-return]


__all__ = ["METHODS", "Method", "Workplace", "find_method"]
