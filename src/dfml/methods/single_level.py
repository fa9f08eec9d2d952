"""Plain data-free distillation of one API (eq:inner alone): what Single-DFKD and Distill-Avg are made of."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dfml.apis.blackbox import ApiSpec, BlackBox
from dfml.config import zero_or_more
from dfml.meta.distil import inner
from dfml.methods import Workplace
from dfml.methods.budgets import refuse_less_than_a_set, within_budgets
from dfml.methods.footprint import Footprint, recovery_footprint
from dfml.methods.meta_model import MetaModelConfig
from dfml.methods.students import with_head
from dfml.methods.turns import Turn, turns
from dfml.nets.functional import Net, Params, head_for
from dfml.recovery.choice import recover
from dfml.recovery.inversion import AFFORDABLE, PUBLISHED, OnStep, RecoveryConfig
from dfml.recovery.recovered import RecoveredSet
from dfml.rng import stream


@dataclass(frozen=True, kw_only=True)
class ImitationConfig:
    """Gradient descent of the student on KL(API || student)."""

    lr: float = 0.01
    steps: int = 100
    """enough to become the API's likeness, unlike the 10 that an inner loop takes"""

    def __post_init__(self) -> None:
        zero_or_more(self, "distil", "lr", "steps")


@dataclass(frozen=True, kw_only=True)
class SingleLevelConfig:
    """One recovered set and one student an API."""

    net: MetaModelConfig = MetaModelConfig()
    recovery: RecoveryConfig = AFFORDABLE
    distil: ImitationConfig = ImitationConfig()


NEEDS_WEIGHTS = ASKS_TOGETHER = False
STUDENT_SECONDS = 1.0
"""one core's, to become one API's likeness"""
PRESETS = {
    "default": SingleLevelConfig(),
    "paper": SingleLevelConfig(recovery=PUBLISHED),
    "released": SingleLevelConfig(recovery=replace(PUBLISHED, radius=0.0013)),
}


def plan(
    config: SingleLevelConfig, specs: Sequence[ApiSpec], *, budget: int | None, budget_per_api: int | None
) -> SingleLevelConfig:
    """Fill in the network's shape, and refuse a budget that buys nothing."""
    refuse_less_than_a_set(config.recovery, specs, budget=budget, budget_per_api=budget_per_api)
    return replace(config, net=config.net.fitted(specs))


def cost(config: SingleLevelConfig, specs: Sequence[ApiSpec]) -> list[int]:
    """Queries to each API, at most: one set."""
    return within_budgets([config.recovery.queries(spec.way) for spec in specs], specs)


def expected(config: SingleLevelConfig, specs: Sequence[ApiSpec]) -> list[int]:
    """Queries to each API, probably."""
    return within_budgets([config.recovery.expected_queries(spec.way) for spec in specs], specs)


def effort(config: SingleLevelConfig, specs: Sequence[ApiSpec]) -> float:
    """Seconds of one core: the generator's, and those of a student an API."""
    return sum(config.recovery.seconds(spec.way) + STUDENT_SECONDS for spec in specs)


def footprint(config: SingleLevelConfig, specs: Sequence[ApiSpec]) -> Footprint:
    """One recovered set after the other; none is kept."""
    queries = cost(config, specs)
    return recovery_footprint(
        config.net.spec, specs, queries, sets=1, images_per_class=config.recovery.images_per_class
    )


def recovered_sets(config: SingleLevelConfig, place: Workplace, *, method: str) -> Iterator[Turn[RecoveredSet]]:
    """One set of every API that answers and can be paid for, in a random order."""

    def recovery(box: BlackBox, iteration: int, on_step: OnStep | None) -> RecoveredSet:
        return recover(
            box,
            config.recovery,
            rng=stream(place.seed, "visit", iteration, "support"),
            size=config.net.size,
            on_step=on_step,
            device=place.hardware.device,
        )

    return turns(
        place,
        recovery,
        method=method,
        most=lambda spec: config.recovery.queries(spec.way),
        steps=config.recovery.length,
        what="set",
        stage="recovering a set",
    )


def imitate(net: Net, params: Params, support: RecoveredSet, config: ImitationConfig) -> Params:
    """A student of the API that `support` came from, begun at `params`.

    An API with another number of classes is imitated under a head of its own, which is then thrown away.
    """
    fitted, start = head_for(net, params, len(support.classes))
    student = inner(fitted, start, support, lr=config.lr, steps=config.steps, first_order=True)
    return with_head(student, params)
