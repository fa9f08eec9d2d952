"""What learning says while it works. The library never prints: the command line draws events, the run keeps them."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True, kw_only=True)
class Event:
    """One thing that happened."""

    kept: ClassVar[bool] = True
    """whether it goes into events.jsonl, or is only drawn"""

    def to_json(self) -> dict[str, Any]:
        return {"event": type(self).__name__} | dataclasses.asdict(self)


Emit = Callable[[Event], None]


@dataclass(frozen=True, kw_only=True)
class LearningStarted(Event):
    """The plan, as far as it is known beforehand."""

    method: str
    apis: int
    iterations: int
    budget: int | None
    resumed_at: int = 0
    visits: int = 0
    """of the iterations that are to come, those that visit an API"""


@dataclass(frozen=True, kw_only=True)
class Planned(Event):
    """What learning will take, estimated before anything is sent."""

    queries: int
    """at most"""
    usd: float | None
    """of the queries whose price is known; None where none is"""
    seconds: float
    """of one core, besides waiting for answers"""
    memory: int
    """bytes at the peak, besides those of local APIs"""
    disk: int
    """bytes of the run folder"""


@dataclass(frozen=True, kw_only=True)
class Remark(Event):
    """Something about the plan that a user should know."""

    text: str


@dataclass(frozen=True, kw_only=True)
class ApiJoined(Event):
    """What is known from the outside of an API that learning asks."""

    api: str
    classes: tuple[str, ...]
    image: tuple[int, int, int]
    accuracy: float | None = None
    """as reported, a fraction"""
    price: float | None = None
    """USD for 1,000 images, where it is known"""


@dataclass(frozen=True, kw_only=True)
class Step(Event):
    """How far the current stage is."""

    kept: ClassVar[bool] = False
    stage: str
    done: int
    total: int
    objective: float
    api: str = ""
    reached: float | None = None
    """the fraction of images that their API gives the class they are meant for"""


@dataclass(frozen=True, kw_only=True)
class Spent(Event):
    """What all APIs together have been paid for so far, by this process and those before."""

    kept: ClassVar[bool] = False
    queries: int
    usd: float | None
    """of all answers whose price is known, unusable ones among them; None where none is known"""


@dataclass(frozen=True, kw_only=True)
class Visited(Event):
    """One API was asked for a support and a query set. The last three tell whether knowledge vanishes (def:inj)."""

    iteration: int
    api: str
    queries: int
    support_reached: float
    query_reached: float
    inner_loss: float | None = None
    outer_loss: float | None = None
    outer_gradient: float | None = None
    """norm of the outer gradient at theta_i; near zero means that the query set teaches nothing"""


@dataclass(frozen=True, kw_only=True)
class Replayed(Event):
    """One meta-step on interpolated tasks from the memory."""

    iteration: int
    loss: float
    accuracy: float


@dataclass(frozen=True, kw_only=True)
class Distilled(Event):
    """Some updates of a student that learns from all answers at once."""

    iteration: int
    objective: float
    """its mean over the updates since the last such event"""


@dataclass(frozen=True, kw_only=True)
class ApiFailed(Event):
    """An API did not answer; learning goes on without it and tries it again later."""

    iteration: int
    api: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class ApiHeard(Event):
    """What an API has said of the pictures it was asked about."""

    api: str
    answers: int
    label_entropy: float
    """bits by which its winning labels vary; near 0: it calls nearly every picture the same"""


@dataclass(frozen=True, kw_only=True)
class ApiWeighed(Event):
    """How much an API's answers count; 0: they could not be told from noise or never change, and were dropped."""

    api: str
    weight: float


@dataclass(frozen=True, kw_only=True)
class BudgetSpent(Event):
    """No further set can be paid for: a normal end of querying."""

    iteration: int
    queries: int


@dataclass(frozen=True, kw_only=True)
class FellShort(Event):
    """Learning ends with less than was planned, because APIs failed; a run that is resumed then asks for the rest."""

    got: int
    planned: int
    what: str
    """of what: answers, sets or visits"""
    reason: str
    """what the last API that failed said"""


@dataclass(frozen=True, kw_only=True)
class LearningFinished(Event):
    """The initialisation is saved."""

    queries: int
    seconds: float
    peak_memory_mb: int
