"""Independent pieces of work on the nodes of a Ray cluster: one core and one thread each."""

import queue
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import ray
from ray.exceptions import RayError, RayTaskError

from dfml.engine.pool import Finished, Report, WorkProgress
from dfml.engine.ray_errors import cause_of, first_line
from dfml.errors import DfmlError
from dfml.runtime import work_beside_others

Item = TypeVar("Item")
Result = TypeVar("Result")
LOSSES = 5
"""how often the process or node that works on an item may be lost before we give up"""


@dataclass(frozen=True)
class _Outcome:
    """What an item came to, at last."""

    result: Any = None
    error: BaseException | None = None


def side_by_side(
    work: Callable[[Item, Report], Result], items: Sequence[Item], *, at_once: int, equip: Callable[[Item], Item]
) -> Iterator[WorkProgress | Finished[Result]]:
    """The progress of every item, and its result as soon as it is there.

    An item whose process or node is lost is begun again elsewhere: work must not mind being done twice.
    """
    task = ray.remote(num_cpus=1, max_retries=0, num_returns="streaming")(_run)
    waiting, losses = deque(range(len(items))), Counter[int]()
    running: dict[Any, int] = {}
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                index = waiting.popleft()
                running[task.remote(work, equip(items[index]))] = index
            (one,), _ = ray.wait(list(running), num_returns=1)
            index = running[one]
            try:
                told = ray.get(next(one))
            except RayTaskError as error:  # a mistake of ours, as it was raised there
                raise cause_of(error) from None
            except RayError as error:
                del running[one]
                losses[index] += 1
                if losses[index] == LOSSES:
                    raise DfmlError(
                        f"a Ray worker was lost {LOSSES} times in a row ({first_line(error)}), perhaps for want of "
                        "memory; run again to resume"
                    ) from None
                waiting.appendleft(index)
                continue
            if isinstance(told, _Outcome):
                del running[one]
                if told.error is not None:
                    raise told.error
                yield Finished(index, told.result)
            else:
                yield WorkProgress(index, told)
    finally:
        for one in running:
            ray.cancel(one, force=True)


def _run(work: Callable[[Any, Report], Any], item: Any) -> Iterator[float | _Outcome]:
    """The task: the fractions that are done, then the outcome."""
    told: queue.SimpleQueue[float | _Outcome] = queue.SimpleQueue()

    def run() -> None:
        work_beside_others()  # by the thread that computes: OpenMP counts for each by itself
        try:
            told.put(_Outcome(work(item, told.put)))
        except BaseException as error:
            told.put(_Outcome(error=error))

    thread = threading.Thread(target=run)
    thread.start()
    while not isinstance(one := told.get(), _Outcome):
        yield one
    thread.join()
    if one.error is not None and not isinstance(one.error, DfmlError):
        raise one.error
    yield one
