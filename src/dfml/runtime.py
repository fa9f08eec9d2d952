"""What the process needs before it computes: an allocator that keeps its pages, and sensible threads."""

import ctypes
import sys

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3  # from <malloc.h>
_KEEP = 1 << 30


def keep_freed_memory() -> bool:
    """Ask glibc not to give freed tensors back to the kernel; say whether it agreed.

    By default every tensor over a few megabytes is mapped and unmapped anew, and each of its pages
    faults in again: for small networks more time than the arithmetic. Harmless to call twice.
    """
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallopt"):  # musl has none, and none of the problem
        return False
    return all(
        libc.mallopt(option, value) == 1
        for option, value in ((_M_MMAP_THRESHOLD, _KEEP), (_M_TRIM_THRESHOLD, _KEEP), (_M_TOP_PAD, 64 << 20))
    )
