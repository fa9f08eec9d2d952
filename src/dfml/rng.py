"""One seed, many named streams of random numbers; nothing here touches a global generator."""

import hashlib

from torch import Generator


def derive_seed(seed: int, *names: str | int) -> int:
    """A 63-bit seed that depends on every part of the path `seed / name / name ...` and on nothing else."""
    path = "/".join(map(str, (seed, *names)))
    return int.from_bytes(hashlib.sha256(path.encode()).digest()[:8], "little") >> 1


def stream(seed: int, *names: str | int) -> Generator:
    """An independent generator for one purpose: `stream(0, "api", 17, "batches")`.

    What one purpose draws never shifts what another draws, so results do not depend on the order
    of work or on the number of workers.
    """
    return Generator().manual_seed(derive_seed(seed, *names))
