"""What a planned run will take, said before anything is sent."""

from collections.abc import Sequence
from typing import Any

from dfml.apis.blackbox import ApiSpec
from dfml.events import Planned
from dfml.methods import Method


def estimate(
    method: Method,
    config: Any,
    specs: Sequence[ApiSpec],
    *,
    budget: int | None = None,
    budget_per_api: int | None = None,
) -> Planned:
    """What a planned run will take, at most."""
    queries, needs = method.cost(config, specs), method.footprint(config, specs)
    if budget_per_api is not None:
        queries = [min(count, budget_per_api) for count in queries]
    prices = [
        count * spec.terms.price / 1000
        for count, spec in zip(queries, specs, strict=True)
        if spec.terms.price is not None
    ]
    return Planned(
        queries=sum(queries) if budget is None else min(budget, sum(queries)),
        usd=sum(prices) if prices else None,
        seconds=round(method.effort(config, specs), 1),
        memory=needs.memory,
        disk=needs.disk,
    )
