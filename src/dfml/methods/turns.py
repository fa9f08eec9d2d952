"""Every API has one turn: paid for or passed over, told about, and found again in the ledger after a crash."""

from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple, Protocol, TypeVar

import torch

from dfml.apis.blackbox import ApiSpec, BlackBox, rest
from dfml.apis.ledger import Affordability, Metered
from dfml.errors import ApiError
from dfml.events import ApiFailed, BudgetSpent, FellShort, LearningStarted, Step, Visited
from dfml.methods import Workplace
from dfml.methods.budgets import nothing_learned
from dfml.recovery.inversion import OnStep
from dfml.rng import stream


class Outcome(Protocol):
    """What an API's turn comes to."""

    @property
    def reached(self) -> float:
        """The fraction of images that the API answers as was meant."""
        ...


T = TypeVar("T", bound=Outcome)


class Turn(NamedTuple, Generic[T]):
    """One API's turn."""

    iteration: int
    api: Metered
    outcome: T


def turns(
    place: Workplace,
    take: Callable[[BlackBox, int, OnStep | None], T],
    *,
    method: str,
    most: Callable[[ApiSpec], int],
    steps: int,
    what: str,
    stage: str,
) -> Iterator[Turn[T]]:
    """`take(api, number of the turn, on_step)` for every API that answers and can be paid for, in a random order.

    A turn costs at most `most(api)` queries, and `take` must ask the same questions whenever it is given the same
    answers. Then nothing but the ledger need be kept: a resumed run asks again, and the answers are on file. `what` and
    `stage` are what a turn gives and does, in words; its `steps` are told one by one.
    """
    apis = place.apis
    place.emit(LearningStarted(method=method, apis=len(apis), iterations=len(apis), budget=place.budget))
    answered, failed, spent, reason = 0, 0, False, ""
    for iteration, index in enumerate(visiting_order(len(apis), place.seed)):
        api = apis[index]
        name, before = api.spec.name, api.ledger.queries

        def rehearse(box: BlackBox, iteration: int = iteration) -> T:
            return take(box, iteration, None)

        if not Affordability(api).pays_for(most(api.spec), rehearse):
            if not spent:
                place.emit(BudgetSpent(iteration=iteration, queries=place.queries))
            spent = True
            continue

        def on_step(step: int, value: float, reached: float, queries: int, name: str = name) -> None:
            place.emit(Step(stage=stage, done=step, total=steps, objective=value, api=name, reached=reached))

        try:
            outcome = take(api, iteration, on_step)
        except ApiError as error:
            failed, reason = failed + 1, str(error)
            place.emit(ApiFailed(iteration=iteration, api=name, reason=reason))
            continue
        answered += 1
        place.emit(
            Visited(
                iteration=iteration,
                api=name,
                queries=api.ledger.queries - before,
                support_reached=outcome.reached,
                query_reached=0.0,
            )
        )
        rest(api)
        yield Turn(iteration, api, outcome)
    if not answered:
        raise nothing_learned(apis, reason, what=what)
    if failed:
        place.emit(FellShort(got=answered, planned=answered + failed, what=f"{what}s", reason=reason))


def visiting_order(count: int, seed: int) -> list[int]:
    """The order in which APIs are visited."""
    order: list[int] = torch.randperm(count, generator=stream(seed, "order")).tolist()
    return order
