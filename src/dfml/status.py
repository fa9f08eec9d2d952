"""Where learning stands: what its events come to, for whoever draws them."""

import time
from collections.abc import Callable
from typing import NamedTuple

from dfml.events import (
    ApiFailed,
    ApiWeighed,
    BudgetSpent,
    Event,
    LearningStarted,
    Planned,
    Remark,
    Replayed,
    Spent,
    Step,
    Visited,
)
from dfml.words import amount, duration, money


class Stage(NamedTuple):
    """A part of learning that counts its own steps, such as asking or one recovery."""

    text: str
    done: int
    total: int


class LearningStatus:
    """How far learning is, what it has spent, and how long it will still take.

    Asking, visits to APIs and other iterations take very different times, so each kind has a pace of its own.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last = clock()
        self._paces: dict[str, tuple[float, int]] = {}  # of each kind: seconds that it took, and how many there were
        self._left: dict[str, int] = {}
        self._planned = 0.0
        self.what = ""
        """what is done just now"""
        self.done, self.total = 0, 0
        """iterations"""
        self.stage: Stage | None = None
        self.queries = 0
        """paid for so far, by this process and those before"""
        self.usd: float | None = None
        """what they cost, where a price is known"""
        self.budget: int | None = None

    def see(self, event: Event) -> str | None:
        """Take one event in; where it is worth a line of its own, that line."""
        if isinstance(event, Planned):
            self._planned = event.seconds
        elif isinstance(event, LearningStarted):
            self.budget, self.total, self.done = event.budget, event.iterations, event.resumed_at
            self._left = {"visit": event.visits, "iteration": max(0, self.total - self.done - event.visits)}
            self._last = self._clock()
        elif isinstance(event, Spent):
            self.queries, self.usd = event.queries, event.usd
        elif isinstance(event, Step):
            self._step(event)
        elif isinstance(event, Visited):
            self._count("visit" if self._left.get("visit") else "iteration", 1)
            self._iterated(event.iteration + 1, f"visited {event.api}")
        elif isinstance(event, Replayed):
            self._count("iteration", 1)
            self._iterated(event.iteration + 1, f"replay loss {event.loss:.3f}, accuracy {100 * event.accuracy:.0f} %")
        return _sentence(event)

    @property
    def to_go(self) -> float | None:
        """Seconds that are left, at the pace so far and, for what has none yet, as planned; None: nobody knows."""
        seconds, unknown = 0.0, not self._left
        for kind, left in self._left.items():
            took, count = self._paces.get(kind, (0.0, 0))
            if left and not count:
                unknown = True
            elif left:
                seconds += left * took / count
        if not unknown:
            return seconds
        spent = sum(took for kind, (took, _) in self._paces.items() if kind != "asking")  # asking is not in the plan
        return seconds + max(0.0, self._planned - spent) or None

    @property
    def text(self) -> str:
        """One line: what is spent, then what is done, which may be cut off where there is little room."""
        spent = f"learning, {self.spent}" if self.spent else "learning"
        return f"{spent}: {self.what}" if self.what else spent

    @property
    def spent(self) -> str:
        """Queries and money so far; nothing where nothing was asked."""
        of = "" if self.budget is None else f" of {self.budget:,}"
        return f"{self.queries:,}{of} queries{money(self.usd, ' for ')}" if self.queries else ""

    def _step(self, event: Step) -> None:
        self.stage = Stage(event.stage, event.done, event.total)
        if event.stage == "asking":
            self.what = f"asking {event.api}"
            self._advance("asking", event.total - event.done)
        elif event.stage == "distilling":
            self.what, self.done = f"distilling, objective {event.objective:.3f}", event.done
            self._advance("iteration", event.total - event.done)
        else:
            reached = "" if event.reached is None else f", {100 * event.reached:.0f} % reached"
            text = f"{event.api}: {event.stage}, objective {event.objective:.3f}{reached}"
            self.stage = Stage(text, event.done, event.total)

    def _advance(self, kind: str, left: int) -> None:
        """So many steps of a kind are left; how long the first took says nothing, for much else came before it."""
        if kind not in self._paces:
            self._paces[kind], self._left[kind], self._last = (0.0, 0), left, self._clock()
        elif left < self._left[kind]:
            self._count(kind, self._left[kind] - left)

    def _count(self, kind: str, count: int) -> None:
        """So many steps of a kind were done since the last that were counted."""
        now = self._clock()
        took, before = self._paces.get(kind, (0.0, 0))
        self._paces[kind] = took + now - self._last, before + count
        self._left[kind] = max(0, self._left.get(kind, 0) - count)
        self._last = now

    def _iterated(self, done: int, what: str) -> None:
        self.done, self.what, self.stage = done, what, None


def _sentence(event: Event) -> str | None:
    """What is said once."""
    if isinstance(event, Planned) and (event.queries or event.seconds):
        return (
            f"at most {event.queries:,} queries{money(event.usd, ' for ')}; besides asking about "
            f"{duration(event.seconds)} of one core, {amount(event.memory)} of memory and {amount(event.disk)} of disk"
        )
    if isinstance(event, Remark):
        return event.text
    if isinstance(event, ApiFailed):
        return f"{event.reason}; going on without {event.api} for now"
    if isinstance(event, ApiWeighed) and event.weight == 0:
        return f"{event.api} is left out: its answers do not depend on the image as a classifier's do"
    if isinstance(event, BudgetSpent):
        return f"the budget is spent ({event.queries:,} queries); going on by replay"
    return None
