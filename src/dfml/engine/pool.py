"""Independent pieces of work side by side: one single-threaded process for each core."""

import multiprocessing
import os
import queue
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.queues import Queue
from typing import Generic, TypeVar

from dfml.errors import DfmlError
from dfml.runtime import cores, work_beside_others

Item = TypeVar("Item")
Result = TypeVar("Result")
Report = Callable[[float], None]
"""called by the work with the fraction of it that is done"""


@dataclass(frozen=True)
class WorkProgress:
    """How far one item is."""

    index: int
    done: float


@dataclass(frozen=True)
class Finished(Generic[Result]):
    """What one item came to."""

    index: int
    result: Result


_reports: "Queue[WorkProgress] | None" = None


def side_by_side(
    work: Callable[[Item, Report], Result],
    items: Sequence[Item],
    *,
    workers: int | None = None,
) -> Iterator[WorkProgress | Finished[Result]]:
    """The progress of every item, and its result as soon as it is there, in whatever order they finish.

    Always in processes of their own with one thread each, even for one worker: floating-point sums
    depend on the number of threads, and results must not depend on the number of workers.
    """
    if not items:
        return
    context = multiprocessing.get_context("spawn")  # forking a process that has computed with torch may hang
    reports: Queue[WorkProgress] = context.Queue()
    workers = min(workers or cores(), len(items))
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_start_worker, initargs=(reports,))
    try:
        futures: dict[Future[tuple[Result, int]], int] = {
            pool.submit(_run, work, item, index): index for index, item in enumerate(items)
        }
        waiting = set(futures)
        heard = Counter[int]()
        while waiting:
            finished, waiting = wait(waiting, timeout=0.2, return_when=FIRST_COMPLETED)
            for progress in _drain(reports):
                heard[progress.index] += 1
                yield progress
            for future in finished:
                index, (result, sent) = futures[future], future.result()
                while heard[index] < sent:  # results overtake reports: each has a pipe of its own
                    progress = reports.get()
                    heard[progress.index] += 1
                    yield progress
                yield Finished(index, result)
    except BrokenProcessPool:
        raise DfmlError("a worker process was killed, perhaps for want of memory; run again to resume") from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        reports.close()


def _drain(reports: "Queue[WorkProgress]") -> Iterator[WorkProgress]:
    while True:
        try:
            yield reports.get_nowait()
        except queue.Empty:
            return


def _start_worker(reports: "Queue[WorkProgress]") -> None:
    global _reports
    _reports = reports
    threading.Thread(target=_end_with_master, daemon=True).start()
    work_beside_others()


def _end_with_master() -> None:
    """A worker of a master that was killed would hold on to its core and to the run it works on, unseen."""
    if (master := multiprocessing.parent_process()) is not None:
        master.join()
        os._exit(1)


def _run(work: Callable[[Item, Report], Result], item: Item, index: int) -> tuple[Result, int]:
    """What the work came to, and how many reports it sent."""
    sent = 0

    def report(done: float) -> None:
        nonlocal sent
        assert _reports is not None
        _reports.put(WorkProgress(index, done))
        sent += 1

    result = work(item, report)
    return result, sent
