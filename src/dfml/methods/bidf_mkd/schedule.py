"""Which iterations visit an API and which replay (alg:blackboxDFML leaves it open)."""

from dataclasses import dataclass, field

from dfml.config import zero_or_more
from dfml.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class ScheduleConfig:
    """How long to learn, and when to ask."""

    iterations: int = 0
    """meta-steps in all; 0: follows from the number of visits"""
    visits: int = 0
    """recoveries of a support and a query set; 0: as many as the budget pays, or 2 an API without one"""
    visits_until: float = 0.5
    """visits are spread evenly over this first part of the iterations"""
    plateau: int = 0
    """the released code's rule instead: visit when so many replays since the last visit brought no new best; 0: off"""

    def __post_init__(self) -> None:
        if not 0 < self.visits_until <= 1:
            raise ConfigError(
                f"schedule.visits_until is a fraction of the iterations in (0, 1], got {self.visits_until}"
            )
        zero_or_more(self, "schedule", "iterations", "visits", "plateau")


def visits_due(config: ScheduleConfig, iteration: int) -> int:
    """How many visits should have begun when `iteration` (from 0) ends: evenly spread, the first at once."""
    span = max(1, round(config.iterations * config.visits_until))
    return min(config.visits, -(-(iteration + 1) * config.visits // span))


@dataclass
class Plateau:
    """The released code's rule: recover anew when replay has stopped improving."""

    patience: int
    best: float = 0.0
    since: int = 0

    def saw(self, accuracy: float) -> None:
        """One more replay, with its accuracy on the training tasks."""
        self.best, self.since = (accuracy, 0) if accuracy > self.best else (self.best, self.since + 1)

    def visited(self) -> None:
        """New images: what counts is what replay makes of them."""
        self.best, self.since = 0.0, 0

    @property
    def reached(self) -> bool:
        return self.since >= self.patience


@dataclass
class Rota:
    """Whose turn it is: the API visited least; one that failed waits behind the others."""

    order: list[str]
    visits: dict[str, int] = field(default_factory=dict)
    failed_at: dict[str, int] = field(default_factory=dict)

    def next(self, able: list[str]) -> str | None:
        """The next of those that are `able` to take a visit."""
        ready = [name for name in self.order if name in able]
        if not ready:
            return None
        return min(ready, key=lambda name: (self.visits.get(name, 0), self.failed_at.get(name, -1)))

    def visited(self, name: str) -> None:
        self.visits[name] = self.visits.get(name, 0) + 1
        self.failed_at.pop(name, None)

    def failed(self, name: str, iteration: int) -> None:
        self.failed_at[name] = iteration
