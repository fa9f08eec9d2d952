"""What a budget buys: queries to each API, and recovered sets."""

from collections.abc import Sequence

from dfml.apis.blackbox import ApiSpec
from dfml.apis.ledger import Metered
from dfml.errors import ApiError, BudgetExceeded, ConfigError, Unreachable
from dfml.recovery.inversion import RecoveryConfig


def within_budgets(queries: Sequence[int], specs: Sequence[ApiSpec]) -> list[int]:
    """The queries meant for each API, or what its own budget leaves of them."""
    budgets = [spec.terms.budget for spec in specs]
    return [most if budget is None else min(most, budget) for most, budget in zip(queries, budgets, strict=True)]


def refuse_less_than_a_set(
    recovery: RecoveryConfig, specs: Sequence[ApiSpec], *, budget: int | None, budget_per_api: int | None
) -> list[int]:
    """What a recovered set of each API costs, at most; budgets that buy none are refused."""
    costs = [recovery.queries(spec.way) for spec in specs]
    advice = "recovery.steps, recovery.directions or recovery.images_per_class"
    refuse_less(costs, specs, budget=budget, budget_per_api=budget_per_api, what="recovered set", advice=advice)
    return costs


def refuse_less(
    costs: Sequence[int],
    specs: Sequence[ApiSpec],
    *,
    budget: int | None,
    budget_per_api: int | None,
    what: str,
    advice: str,
) -> None:
    """Refuse budgets that do not buy a single `what` at these costs; `advice` names the settings that lower them."""
    if not any(spec.terms.budget is None or spec.terms.budget >= cost for spec, cost in zip(specs, costs, strict=True)):
        raise ConfigError(
            f"{specs[0].name}: its budget of {specs[0].terms.budget:,} queries is below one {what}, which takes "
            f"{costs[0]:,}, and no other API has more; raise it, or lower {advice}"
        )
    for name, amount in (("--budget", budget), ("--budget-per-api", budget_per_api)):
        if amount is not None and amount < min(costs):
            raise ConfigError(
                f"{name} {amount:,} is below one {what}, which takes {min(costs):,} queries; "
                f"raise it, or lower {advice}"
            )


def nothing_learned(apis: Sequence[Metered], reason: str, *, what: str = "recovered set") -> ApiError:
    """What to raise instead of handing out a network that learned nothing; `reason` is what the last failure was."""
    doubt = sum(api.ledger.in_doubt for api in apis)
    forgive = f", or use --forgive-doubt, so that the {doubt:,} queries in doubt do not count" if doubt else ""
    if reason:
        return Unreachable(
            f"none of the {len(apis)} APIs answered (the last: {reason}); put that right{forgive}, "
            "then go on with --resume"
        )
    return BudgetExceeded(
        f"the budget does not pay for a single {what} of any of the {len(apis)} APIs, so nothing was learned; "
        f"raise it{forgive}, then go on with --resume"
    )
