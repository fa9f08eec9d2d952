"""What a planned run will take, said before anything is sent."""

from collections.abc import Sequence
from typing import Any

from dfml.apis.blackbox import ApiSpec
from dfml.events import Planned
from dfml.methods import Method


def estimate(method: Method, config: Any, specs: Sequence[ApiSpec]) -> Planned:
    """What a planned run will take."""
    queries, needs = method.cost(config, specs), method.footprint(config, specs)
    prices = [
        count * spec.terms.price / 1000
        for count, spec in zip(queries, specs, strict=True)
        if spec.terms.price is not None
    ]
    return Planned(
        queries=sum(queries),
        usd=sum(prices) if prices else None,
        seconds=round(method.effort(config, specs), 1),
        memory=needs.memory,
        disk=needs.disk,
    )
