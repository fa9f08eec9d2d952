"""Ways from APIs to an initialisation, one file each, found by name."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol

from torch import Tensor

from dfml.apis.blackbox import ApiSpec
from dfml.apis.ledger import Metered
from dfml.engine.choice import Engine, Local
from dfml.errors import ConfigError, nearest
from dfml.events import Emit
from dfml.hardware import CPU, Hardware
from dfml.initialisation import Initialisation
from dfml.methods.footprint import Footprint
from dfml.runs import RunFolder

METHODS = {
    "chorus": "chorus",
    "bidf-mkd": "bidf_mkd",
    "white-box": "bidf_mkd.white_box",
    "single-dfkd": "single_dfkd",
    "distill-avg": "distill_avg",
    "dfme": "dfme",
    "maze": "maze",
    "model-fusion": "model_fusion",
    "purer": "purer",
    "free": "free",
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
    images: Tensor | None = None
    """pictures of the user's own, uint8 (n, c, h, w), for methods whose config counts them as `own_images`"""

    @property
    def queries(self) -> int:
        """What has been spent, by this process and those before."""
        return sum(api.ledger.queries for api in self.apis)


class Method(Protocol):
    """A module of this package."""

    PRESETS: dict[str, Any]
    """settings by name; "default" is there always"""
    NEEDS_WEIGHTS: bool
    """it works on the APIs' weights, not on answers alone"""
    ASKS_TOGETHER: bool
    """all APIs are asked side by side, not one after the other"""

    def plan(self, config: Any, specs: Sequence[ApiSpec], *, budget: int | None, budget_per_api: int | None) -> Any:
        """`config` with everything filled in that follows from the APIs and the budget; refuses what cannot work."""
        ...

    def cost(self, config: Any, specs: Sequence[ApiSpec]) -> list[int]:
        """Queries that a planned run sends to each API, at most."""
        ...

    def expected(self, config: Any, specs: Sequence[ApiSpec]) -> list[int]:
        """Queries that a planned run probably sends to each API."""
        ...

    def effort(self, config: Any, specs: Sequence[ApiSpec]) -> float:
        """Seconds of one core that a planned run computes besides asking, roughly."""
        ...

    def footprint(self, config: Any, specs: Sequence[ApiSpec]) -> Footprint:
        """Memory and disk that a planned run takes, roughly."""
        ...

    def run(self, config: Any, place: Workplace) -> Initialisation:
        """Learn; resumes by itself from what the run folder holds."""
        ...


def find_method(name: str) -> Method:
    """The method called `name`: one of ours, one that an installed package offers, or a Python file that is one."""
    if name in METHODS:
        found: Any = import_module(f"dfml.methods.{METHODS[name]}")
    else:
        from dfml.methods.foreign import find_foreign

        found = find_foreign(name)
        if found is None:
            raise ConfigError(f"unknown method {name!r}; {nearest(name, METHODS)}")
    return found  # type: ignore[no-any-return]


__all__ = ["METHODS", "Method", "Workplace", "find_method"]
