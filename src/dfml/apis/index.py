"""Where the answer to a key is, for any number of keys, without keeping them in memory."""

import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Places = NDArray[np.int64]


class Index:
    """A hash table from 64-bit tags to places, in a scratch file that vanishes with the process.

    Open addressing: a tag lies in the slot that its low bits name, or in the next free one. At most half of the slots
    are taken. The file is mapped, so the kernel keeps of it in memory what fits and writes the rest back to the disk.
    A tag may be put in twice; one of its places is found.
    """

    def __init__(self, folder: Path, *, slots: int = 1 << 12) -> None:
        self._folder, self._count = folder, 0
        self._tags, self._places = _table(folder, slots)

    def __len__(self) -> int:
        return self._count

    def find(self, tags: Words) -> Places:
        """The place of each tag (n,), or -1."""
        tags = np.maximum(tags, 1)  # 0 marks a free slot
        mask = np.uint64(len(self._tags) - 1)
        found = np.full(len(tags), -1)
        looking, slot = np.arange(len(tags)), tags & mask
        while len(looking):
            held = self._tags[slot]
            there = held == tags[looking]
            found[looking[there]] = self._places[slot[there]]
            on = ~there & (held != 0)
            looking, slot = looking[on], (slot[on] + np.uint64(1)) & mask
        return found

    def add(self, tags: Words, places: Places) -> None:
        """Remember the places (n,) of tags (n,)."""
        self._count += len(tags)
        if 2 * self._count > len(self._tags):
            old_tags, old_places = self._tags, self._places
            slots = len(old_tags)
            while 2 * self._count > slots:
                slots *= 4
            self._tags, self._places = _table(self._folder, slots)
            for start in range(0, len(old_tags), 1 << 16):
                part = slice(start, start + (1 << 16))
                taken = old_tags[part] != 0
                self._put(old_tags[part][taken], old_places[part][taken])
        self._put(tags, places)

    def _put(self, tags: Words, places: Places) -> None:
        tags = np.maximum(tags, 1)
        mask = np.uint64(len(self._tags) - 1)
        slot = tags & mask
        while len(tags):
            free = self._tags[slot] == 0
            # Of several that want one free slot the last writer has it; whoever does not find itself there goes on.
            self._places[slot[free]] = places[free]
            self._tags[slot[free]] = tags[free]
            mine = free & (self._places[slot] == places)
            tags, places, slot = tags[~mine], places[~mine], (slot[~mine] + np.uint64(1)) & mask


def _table(folder: Path, slots: int) -> tuple[Words, Places]:
    with tempfile.TemporaryFile(dir=folder) as file:
        # Written out, not left as a hole: a full disk must show here, as an error, not later, as a fatal signal.
        for _ in range(0, 16 * slots, 1 << 16):
            file.write(bytes(1 << 16))
        file.flush()
        table = np.memmap(file, np.uint64, shape=(2, slots))
    return table[0].view(np.ndarray), table[1].view(np.int64).view(np.ndarray)
