"""Batches side by side: each is computed by one thread, so what comes out does not depend on how many there are."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from dfml.apis.blackbox import ImageArray
from dfml.runtime import cores


def side_by_side(
    work: Callable[[ImageArray], ImageArray], batches: list[ImageArray], threads: int | None
) -> list[ImageArray]:
    """`work` on every batch, so many at once as there are `threads`, or cores."""
    # A runtime's own threads would share each layer of a batch, and spin in between on cores that others need.
    threads = min(threads or cores(), len(batches))
    if threads == 1:
        return [work(batch) for batch in batches]
    return list(_pool(os.getpid(), threads).map(work, batches))


@cache
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Shared by all files of a process; a forked child needs its own."""
    return ThreadPoolExecutor(threads, thread_name_prefix="batches")
