"""What a budget buys: queries to each API, and recovered sets."""

from collections.abc import Sequence

from dfml.apis.blackbox import ApiSpec
from dfml.errors import ConfigError
from dfml.recovery.inversion import RecoveryConfig


def within_budgets(queries: Sequence[int], specs: Sequence[ApiSpec]) -> list[int]:
    """The queries meant for each API, or what its own budget leaves of them."""
    budgets = [spec.terms.budget for spec in specs]
    return [most if budget is None else min(most, budget) for most, budget in zip(queries, budgets, strict=True)]


def refuse_less_than_a_set(
    recovery: RecoveryConfig, specs: Sequence[ApiSpec], *, budget: int | None, budget_per_api: int | None
) -> list[int]:
    """What a recovered set of each API costs; a budget that buys none is refused."""
    costs = [recovery.queries(spec.way) for spec in specs]
    for name, amount in (("--budget", budget), ("--budget-per-api", budget_per_api)):
        if amount is not None and amount < min(costs):
            raise ConfigError(
                f"{name} {amount:,} is below one recovered set, which takes {min(costs):,} queries; "
                "raise it, or lower recovery.steps, recovery.directions or recovery.images_per_class"
            )
    return costs
