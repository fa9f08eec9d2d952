"""What the process needs before it computes: an allocator that keeps its pages."""

import ctypes
import sys

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX = -1, -2, -4  # from <malloc.h>
_HUGE = 2**31 - 1


def keep_freed_memory() -> bool:
    """Ask glibc not to give freed tensors back to the kernel; say whether it agreed.

    By default every tensor over a few megabytes is mapped and unmapped anew, and each of its pages faults in again:
    for small networks that takes longer than the arithmetic. So: no mappings (a raised threshold would not do, glibc
    accepts at most 32 MB), and never trim the heap. Harmless to call twice.
    """
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallopt"):  # musl has none, and none of the problem
        return False
    settings = ((_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, _HUGE), (_M_TOP_PAD, 64 << 20))
    agreed = [libc.mallopt(option, value) == 1 for option, value in settings]
    return all(agreed)
