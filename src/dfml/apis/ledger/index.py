"""Where the answer to a key is, for any number of keys, without keeping them in memory."""

import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Places = NDArray[np.int64]

_WIDTH = 8  # tags in a bucket: one line of the processor's cache
_COPIED = 1 << 13  # buckets moved at a time when the table grows


class Index:
    """A hash table from 64-bit tags to places, in a scratch file that vanishes with the process.

    A tag lies in the bucket that its low bits name, or, where that is full, in the next one; a bucket fills from the
    left. At most half of the table is taken. The file is mapped, so the kernel keeps of it in memory what fits and
    writes the rest back to the disk. A tag may be put in twice; one of its places is found.
    """

    def __init__(self, folder: Path, *, buckets: int = 1 << 9) -> None:
        self._folder, self._count = folder, 0
        self._tags, self._places = _table(folder, buckets)

    def __len__(self) -> int:
        return self._count

    def find(self, tags: Words) -> Places:
        """The place of each tag (n,), or -1."""
        tags = np.maximum(tags, 1)  # 0 marks a free slot
        mask = np.uint64(len(self._tags) - 1)
        found = np.full(len(tags), -1)
        looking, bucket = np.arange(len(tags)), tags & mask
        while len(looking):
            held = self._tags[bucket]
            same = held == tags[looking, None]
            there = same.any(1)
            if there.any():
                found[looking[there]] = self._places[bucket[there], same[there].argmax(1)]
            on = ~there & (held[:, -1] != 0)
            looking, bucket = looking[on], (bucket[on] + np.uint64(1)) & mask
        return found

    def add(self, tags: Words, places: Places) -> None:
        """Remember the places (n,), all different, of tags (n,)."""
        self._count += len(tags)
        if 2 * self._count > self._tags.size:
            self._grow()
        self._put(tags, places)

    def _grow(self) -> None:
        tags, places = self._tags, self._places
        buckets = len(tags)
        while 2 * self._count > buckets * _WIDTH:
            buckets *= 4
        self._tags, self._places = _table(self._folder, buckets)
        for start in range(0, len(tags), _COPIED):
            part = slice(start, start + _COPIED)
            taken = tags[part] != 0
            self._put(tags[part][taken], places[part][taken])

    def _put(self, tags: Words, places: Places) -> None:
        tags = np.maximum(tags, 1)
        mask = np.uint64(len(self._tags) - 1)
        bucket = tags & mask
        while len(tags):
            slot = (self._tags[bucket] != 0).sum(1)
            full = slot == _WIDTH
            if full.any():
                bucket[full] = (bucket[full] + np.uint64(1)) & mask
                continue
            # Of several that want one slot the last writer has it; those that do not find themselves there try again.
            self._places[bucket, slot] = places
            self._tags[bucket, slot] = tags
            lost = self._places[bucket, slot] != places
            tags, places, bucket = tags[lost], places[lost], bucket[lost]


def _table(folder: Path, buckets: int) -> tuple[Words, Places]:
    size = 2 * 8 * _WIDTH * buckets
    with tempfile.TemporaryFile(dir=folder) as file:
        # Written out, not left as a hole: a full disk must show here, as an error, not later, as a fatal signal.
        for start in range(0, size, 1 << 20):
            file.write(bytes(min(1 << 20, size - start)))
        file.flush()
        table = np.memmap(file, np.uint64, shape=(2, buckets, _WIDTH))
    return table[0].view(np.ndarray), table[1].view(np.int64).view(np.ndarray)
