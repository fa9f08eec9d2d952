"""The process itself: its cores, an allocator that keeps its pages, and how much memory it took."""

import ctypes
import os
import resource
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -2, -4, -8  # from <malloc.h>
_HUGE = 2**31 - 1
_alone = True


def cores() -> int:
    """The cores this process may use; one that works beside others has one, the rest are theirs."""
    if not _alone:
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def work_beside_others() -> None:
    """Make this process one of several that share the machine's cores: single-threaded, with our allocator."""
    global _alone
    import torch

    _alone = False
    keep_freed_memory()
    torch.set_num_threads(1)


class Map(Protocol):
    """The built-in `map`, or one that works on several items at once; results come in the order of the items."""

    def __call__(self, work: Callable[[Item], Result], items: Iterable[Item], /) -> Iterator[Result]: ...


@contextmanager
def one_core() -> Iterator[None]:
    """Torch uses one core meanwhile: floating-point numbers depend on how many threads share the work."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)  # half of that setting belongs to the process, not to the thread that made it


@contextmanager
def single_cores(workers: int) -> Iterator[Map]:
    """A `map` over so many threads, in which torch uses one core each, as it does in the calling thread meanwhile.

    So what is cut into the same parts comes to the same bits, however many workers there are.
    """
    import torch

    with one_core(), ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        yield pool.map


def sleep_while_waiting() -> None:
    """Have threads that share a computation sleep, not spin, while they wait for each other; unless the user decided.

    Where other programs want cores, too, who spins keeps the core that the last one needs to finish. With cores to
    themselves they gain nothing by it that could be measured. OpenMP looks at this once, when torch is loaded.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def keep_freed_memory() -> bool:
    """Ask glibc not to give freed tensors back to the kernel; say whether it agreed.

    By default every tensor over a few megabytes is mapped and unmapped anew, and each of its pages faults in again:
    for small networks that takes longer than the arithmetic. So: no mappings (a raised threshold would not do, glibc
    accepts at most 32 MB), and never trim the heap. And one heap for all threads: what is kept in one of several is of
    no use to the others, so that each would hold as much as its thread ever needed. Harmless to call twice.
    """
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallopt"):  # musl has none, and none of the problem
        return False
    settings = ((_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, _HUGE), (_M_TOP_PAD, 64 << 20), (_M_ARENA_MAX, 1))
    agreed = [libc.mallopt(option, value) == 1 for option, value in settings]
    return all(agreed)


def peak_memory_mb() -> int:
    """The most memory this process has held at once, in units of 2**20 bytes."""
    status = Path("/proc/self/status")
    if status.exists():  # getrusage would count what the parent held before it started us
        held = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(held.split()[1]) >> 10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak >> 20 if sys.platform == "darwin" else peak >> 10  # bytes there, kilobytes elsewhere
