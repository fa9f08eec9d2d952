"""What is in the cache folder, and how old it is: decoded images, and whatever else was put there."""

import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from dfml.data.cache import cache_folder
from dfml.errors import ConfigError

DAY = 86_400.0


class CacheEntry(NamedTuple):
    """The files that belong together under one name."""

    name: str
    paths: tuple[Path, ...]
    size: int
    unused: float
    """days since anything of it was written or used"""


def cache_entries(*, now: float | None = None) -> list[CacheEntry]:
    """Everything in the cache folder, the largest first; the pixels of a data set and their index are one entry."""
    groups: dict[str, list[Path]] = {}
    folder = cache_folder()
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        groups.setdefault(path.stem if path.suffix in (".npy", ".json") else path.name, []).append(path)
    now = time.time() if now is None else now
    entries = []
    for name, paths in groups.items():
        size, used = 0, 0.0
        inside = [path for folder in paths if folder.is_dir() for path in folder.rglob("*")]
        for path in (*paths, *inside):
            with suppress(OSError):  # another process may be sweeping
                fact = path.lstat()
                size += 0 if path.is_dir() else fact.st_size
                used = max(used, fact.st_mtime)
        entries.append(CacheEntry(name, tuple(paths), size, max(0.0, now - used) / DAY))
    return sorted(entries, key=lambda entry: -entry.size)


def prune(days: float, *, now: float | None = None) -> list[CacheEntry]:
    """Remove what was not used for so many days; what was removed."""
    gone = [entry for entry in cache_entries(now=now) if entry.unused >= days]
    for entry in gone:
        # The index goes first: pixels without one are decoded again, an index without pixels is never left.
        for path in sorted(entry.paths, key=lambda path: path.suffix != ".json"):
            try:
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
            except OSError as error:
                raise ConfigError(f"cannot remove {path}: {error.strerror}; remove it by hand") from None
    return gone


__all__ = ["CacheEntry", "cache_entries", "cache_folder", "prune"]
