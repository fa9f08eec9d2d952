"""What a run of BiDf-MKD will do and cost: how many visits a budget pays for."""

from collections.abc import Sequence
from dataclasses import replace

from dfml.apis.blackbox import ApiSpec
from dfml.methods.bidf_mkd.settings import BidfMkdConfig
from dfml.methods.budgets import refuse_less_than_a_set, within_budgets
from dfml.methods.footprint import Footprint, recovery_footprint

META_STEP_SECONDS = 1.0
"""one core's, of 4 tasks"""


def plan(
    config: BidfMkdConfig, specs: Sequence[ApiSpec], *, budget: int | None, budget_per_api: int | None
) -> BidfMkdConfig:
    """Fill in the network's shape and the length of the schedule, and refuse a budget that buys nothing."""
    config = replace(config, net=config.net.fitted(specs))
    refuse_less_than_a_set(config.recovery, specs, budget=budget, budget_per_api=budget_per_api)
    schedule = config.schedule
    if not schedule.visits and not schedule.plateau:
        limits = [_smaller(spec.terms.budget, budget_per_api) for spec in specs]
        prices = [config.recovery.expected_queries(spec.way) for spec in specs]
        schedule = replace(schedule, visits=_affordable_visits(prices, budget, limits))
    if not schedule.iterations:
        schedule = replace(schedule, iterations=max(1_000, 100 * schedule.visits))
    return replace(config, schedule=schedule)


def _smaller(one: int | None, other: int | None) -> int | None:
    return min((bound for bound in (one, other) if bound is not None), default=None)


def _affordable_visits(costs: list[int], budget: int | None, limits: list[int | None]) -> int:
    """A visit recovers two sets, at their expected price; a budget that buys an odd one more gets a visit for it.

    Sets that turn out dearer end the visits sooner: none is begun that might not be paid for to its end.
    """
    bounds = []
    if budget is not None:
        bounds.append(-(-(budget // (sum(costs) // len(costs))) // 2))
    if None not in limits:
        bounds.append(sum(-(-((limit or 0) // cost) // 2) for limit, cost in zip(limits, costs, strict=True)))
    return max(1, min(bounds, default=2 * len(costs)))


def cost(config: BidfMkdConfig, specs: Sequence[ApiSpec]) -> list[int]:
    """Queries to each API, at most: two sets a visit."""
    return _shared_out(config, specs, [config.recovery.queries(spec.way) for spec in specs])


def expected(config: BidfMkdConfig, specs: Sequence[ApiSpec]) -> list[int]:
    """Queries to each API, probably."""
    return _shared_out(config, specs, [config.recovery.expected_queries(spec.way) for spec in specs])


def _shared_out(config: BidfMkdConfig, specs: Sequence[ApiSpec], prices: list[int]) -> list[int]:
    """Two sets a visit; visits are shared out evenly, and what is left over goes to the dearest."""
    each, over = divmod(_visits(config), len(specs))
    dearest = sorted(range(len(specs)), key=lambda index: -prices[index])[:over]
    return within_budgets([2 * price * (each + (index in dearest)) for index, price in enumerate(prices)], specs)


def effort(config: BidfMkdConfig, specs: Sequence[ApiSpec]) -> float:
    """Seconds of one core: the generator's for two sets a visit, and those of all meta-steps."""
    sets = 2 * _visits(config) / len(specs)
    drawn = sum(sets * config.recovery.seconds(spec.way) for spec in specs)
    return drawn + config.schedule.iterations * META_STEP_SECONDS


def footprint(config: BidfMkdConfig, specs: Sequence[ApiSpec]) -> Footprint:
    """The memory of recovered sets, of which there are two a visit."""
    sets, shown = 2 * _visits(config), config.recovery.images_per_class
    return recovery_footprint(config.net.spec, specs, cost(config, specs), sets=sets, images_per_class=shown)


def _visits(config: BidfMkdConfig) -> int:
    """At most: by the rule of the plateau the first iteration visits, and then one after so many replays."""
    schedule = config.schedule
    return -(-schedule.iterations // (schedule.plateau + 1)) if schedule.plateau else schedule.visits
