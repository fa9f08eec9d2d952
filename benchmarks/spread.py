"""Contenders that take turns in one process, by the clock and by processor time, and how far their rounds lie apart.

The clock tells what a user waits for; on a machine that is busy with other things only processor time can be compared.
"""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol


class Timed(Protocol):
    """Whatever knows what it took."""

    @property
    def seconds(self) -> float: ...

    @property
    def processor_seconds(self) -> float: ...


class Took(NamedTuple):
    """What one round took of everybody's time, and of this process's."""

    seconds: float
    processor_seconds: float


class Spread(NamedTuple):
    """The median of some rounds and the quartiles around it."""

    median: float
    low: float
    high: float

    def rounded(self, digits: int) -> dict[str, float]:
        """For a file."""
        return {name: round(value, digits) for name, value in self._asdict().items()}

    def told(self, form: str, *, less: float = 0.0) -> str:
        """`median (low to high)`, each without `less` and in the given format."""
        median, low, high = (f"{value - less:{form}}" for value in self)
        return f"{median} ({low} to {high})"


def measure(work: Callable[[], object]) -> Took:
    """What `work` takes."""
    start, busy = time.perf_counter(), time.process_time()
    work()
    return Took(time.perf_counter() - start, time.process_time() - busy)


def in_turns(contenders: Mapping[str, Callable[[], Callable[[], object]]], *, rounds: int) -> dict[str, list[Took]]:
    """So many rounds of each; whoever was first is last the next time, and a round before the first warms up.

    A contender gets ready for a round, which is not counted, and returns what is.
    """
    times: dict[str, list[Took]] = {name: [] for name in contenders}
    for number in range(rounds + 1):
        for name in list(contenders)[:: -1 if number % 2 else 1]:
            took = measure(contenders[name]())
            if number:
                times[name].append(took)
    return times


def spread(values: Sequence[float]) -> Spread:
    """Median and quartiles."""
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(median, low, high)


def ratios(ours: Sequence[Timed], theirs: Sequence[Timed]) -> tuple[Spread, Spread]:
    """Ours to theirs round by round, by processor time and by the clock."""
    pairs = list(zip(ours, theirs, strict=True))
    by_work = [own.processor_seconds / other.processor_seconds for own, other in pairs]
    return spread(by_work), spread([own.seconds / other.seconds for own, other in pairs])
