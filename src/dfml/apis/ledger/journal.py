"""The file of a ledger: one API's answers, each durable before it is used, in SQLite."""

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dfml.apis.ledger.fingerprint import KEY_BYTES
from dfml.apis.ledger.index import Index, Words
from dfml.errors import ArtifactError, ConfigError, DfmlError

ProbabilityArray = NDArray[np.float32]
AnswerArray = NDArray[np.float32] | NDArray[np.float16]

_OURS, _FORMAT = 0x64666D6C, 2  # "dfml" in ASCII
_ROW = 1024  # answers in one row of the table, at most: what a lookup has to read
_PAID = f"SELECT coalesce((SELECT first + length(keys) / {KEY_BYTES} FROM answers ORDER BY first DESC LIMIT 1), 0)"
_KEEP = f"INSERT INTO answers VALUES (({_PAID}), ?, ?)"
_COUNTED = "SELECT coalesce((SELECT count FROM counts WHERE what = ?), 0)"
_UNUSABLE = _COUNTED.replace("?", "'unusable'")
_SENT = "SELECT coalesce(sum(count), 0) FROM in_flight"
_SCHEMA = """
CREATE TABLE about (name TEXT NOT NULL, classes TEXT NOT NULL);
-- Answers are numbered in the order they came. A row holds those of one request: their keys and probabilities, joined.
CREATE TABLE answers (first INTEGER PRIMARY KEY, keys BLOB NOT NULL, probs BLOB NOT NULL);
-- Requests that were about to be sent: whatever is still here when no process works was in flight at a crash.
CREATE TABLE in_flight (id INTEGER PRIMARY KEY AUTOINCREMENT, count INTEGER NOT NULL);
"""
_SINCE_2 = "CREATE TABLE counts (what TEXT PRIMARY KEY, count INTEGER NOT NULL)"
"""how many answers were unusable, and how many the file saved"""


class Journal:
    """One API's answers on disk. It survives the death of the process at any moment, but is for one thread at a time.

    Every change is one transaction, written through a write-ahead log without waiting for the disk: a crash of the
    process loses nothing that was committed; one of the whole machine may lose the last moments, and nothing else.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with _Explained(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
        try:
            with _Explained(path):
                self._create()
                # A request announced before now belongs to a process that is gone: how it ended is unknown.
                self._before_us = self._one("SELECT coalesce(max(id), 0) FROM in_flight")
                self._abandoned: set[int] = set()
                self._index, self._indexed = Index(path.parent), 0
                self._catch_up()
        except BaseException:
            self._db.close()
            raise

    def belongs_to(self, name: str, classes: Sequence[str]) -> None:
        """Make this the journal of that API, or raise if it is another's; without answers, classes may change."""
        with self._transaction():
            told = self._db.execute("SELECT name, classes FROM about").fetchone()
            if told is None or (told[0] == name and self.paid == 0):
                self._db.execute("DELETE FROM about")
                self._db.execute("INSERT INTO about VALUES (?, ?)", (name, json.dumps(list(classes))))
                return
        if told[0] != name:
            raise ConfigError(f"{self.path} holds the answers of {told[0]}, not of {name}; give each API its own file")
        before = json.loads(told[1])
        if before != list(classes):
            raise ConfigError(
                f"{self.path}: {name} had the classes {_shown(before)} and now has {_shown(classes)}; "
                "its answers no longer mean the same, so start a new run"
            )

    @property
    def paid(self) -> int:
        """How many answers it holds."""
        return self._one(_PAID)

    @property
    def unusable(self) -> int:
        """Images whose answers were paid for and could not be used."""
        return self._one(_COUNTED, "unusable")

    @property
    def saved(self) -> int:
        """Images that were answered from this file."""
        return self._one(_COUNTED, "saved")

    @property
    def in_doubt(self) -> int:
        """Images in requests whose end was not seen, as after a crash: perhaps paid for, not kept."""
        return self._one(_SENT) - self.in_flight

    @property
    def in_flight(self) -> int:
        """Images in requests that are under way."""
        return self._one(self._under_way())

    def find(self, keys: Sequence[bytes], way: int) -> dict[bytes, ProbabilityArray]:
        """The answers (way,) to those of `keys` that it knows."""
        self._catch_up()
        places = self._index.find(_tags(b"".join(keys)))
        known = {int(place): keys[i] for i, place in enumerate(places) if place >= 0} if (places >= 0).any() else {}
        found: dict[bytes, ProbabilityArray] = {}
        first, end = 0, 0
        row_keys, row = b"", np.empty((0, way), np.float32)
        for place, key in sorted(known.items()):
            if not first <= place < end:
                with _Explained(self.path):
                    first, row_keys, probs = self._db.execute(
                        "SELECT first, keys, probs FROM answers WHERE first <= ? ORDER BY first DESC LIMIT 1", (place,)
                    ).fetchone()
                end = first + len(row_keys) // KEY_BYTES
                row = _read(probs, end - first, way)
            at = place - first
            if row_keys[at * KEY_BYTES : (at + 1) * KEY_BYTES] == key:  # the index knows only half of a key
                found[key] = row[at]
        return found

    def spent(self, *, forgive_doubt: bool) -> int:
        """What counts against a budget: answers, usable or not, and what is under way or, unless forgiven, in doubt."""
        return self._one(f"SELECT {self._spent(forgive_doubt)}")

    def announce(self, count: int, *, limit: int | None, forgive_doubt: bool = False) -> int | None:
        """Write down that `count` images are about to be sent; None, and nothing written, if that passes `limit`."""
        if limit is None:
            return self._announced(count)
        # One statement is a transaction of its own, and at each statement other threads take their turn.
        query = f"INSERT INTO in_flight (count) SELECT ?1 WHERE {self._spent(forgive_doubt)} + ?1 <= ?2"
        with _Explained(self.path):
            done = self._db.execute(query, (count, limit))
        return done.lastrowid if done.rowcount else None

    def keep(self, shares: Mapping[int, int], keys: Sequence[bytes], answers: AnswerArray) -> None:
        """Keep `answers` (n, k), float32 or float16, to so many images of each request in `shares`."""
        little = answers.astype(answers.dtype.newbyteorder("<"), copy=False)
        with self._transaction():
            for start in range(0, len(keys), _ROW):
                part = slice(start, start + _ROW)
                row = (b"".join(keys[part]), little[part].tobytes())
                self._db.execute(_KEEP, row)
            self._end(shares)

    def waste(self, shares: Mapping[int, int]) -> None:
        """So many images of each request got answers that are none."""
        with self._transaction():
            self._end(shares)
            self._count("unusable", sum(shares.values()))

    def withdraw(self, shares: Mapping[int, int]) -> None:
        """So many images of each request were sent in vain, and cost nothing."""
        with self._transaction():
            self._end(shares)

    def split(self, request: int, count: int) -> int:
        """The number of a request of its own for so many images of `request`."""
        with self._transaction():
            self._end({request: count})
            return self._announced(count)

    def abandon(self, request: int) -> None:
        """How `request` ended cannot be known: it stays on file, in doubt."""
        self._abandoned.add(request)

    def save(self, count: int) -> None:
        """So many images more were answered from this file."""
        with self._transaction():
            self._count("saved", count)

    def close(self) -> None:
        self._db.close()

    def _announced(self, count: int) -> int:
        """The number of a new request of so many images."""
        with _Explained(self.path):
            request = self._db.execute("INSERT INTO in_flight (count) VALUES (?)", (count,)).lastrowid
        assert request is not None
        return request

    def _spent(self, forgive_doubt: bool) -> str:
        """What counts against a budget, as an expression of SQL."""
        return f"({_PAID}) + ({_UNUSABLE}) + ({self._under_way() if forgive_doubt else _SENT})"

    def _under_way(self) -> str:
        """A query for the images of our requests that were not abandoned."""
        return f"{_SENT} WHERE id > {self._before_us} AND id NOT IN ({', '.join(map(str, self._abandoned))})"

    def _end(self, shares: Mapping[int, int]) -> None:
        """So many images of each request are not under way any more."""
        for request, count in shares.items():
            done = self._db.execute("DELETE FROM in_flight WHERE id = ? AND count = ?", (request, count)).rowcount
            if not done:
                self._db.execute("UPDATE in_flight SET count = count - ? WHERE id = ?", (count, request))

    def _count(self, what: str, count: int) -> None:
        more = "INSERT INTO counts VALUES (?, ?) ON CONFLICT (what) DO UPDATE SET count = count + excluded.count"
        self._db.execute(more, (what, count))

    def _create(self) -> None:
        if not _is_empty(self._db):
            _check_ours(self.path, self._db)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")
        with self._transaction():
            if _is_empty(self._db):
                for statement in _SCHEMA.split(";\n"):
                    self._db.execute(statement)
                self._db.execute(f"PRAGMA application_id = {_OURS}")
            if self._one("PRAGMA user_version") < _FORMAT:  # new, or of the format before: its answers stay as they are
                self._db.execute(_SINCE_2)
                self._db.execute(f"PRAGMA user_version = {_FORMAT}")

    def _catch_up(self) -> None:
        """Index the answers that came since the last time, from us or from another process."""
        with _Explained(self.path):
            rows = self._db.execute("SELECT keys FROM answers WHERE first >= ? ORDER BY first", (self._indexed,))
            while some := rows.fetchmany(_ROW):  # many at once: where answers come singly, so do the rows
                tags = _tags(b"".join(keys for (keys,) in some))
                self._index.add(tags, np.arange(self._indexed, self._indexed + len(tags)))
                self._indexed += len(tags)

    def _transaction(self) -> "_Transaction":
        return _Transaction(self.path, self._db)

    def _one(self, query: str, *values: int | str) -> int:
        with _Explained(self.path):
            return int(self._db.execute(query, values).fetchone()[0])


class Facts(NamedTuple):
    """What a journal says of itself."""

    name: str | None = None
    paid: int = 0
    unusable: int = 0
    in_doubt: int = 0
    saved: int = 0


def read_only(path: Path) -> Facts:
    """What the journal at `path` says, without touching it.

    In doubt is then also what a process that works at this moment has under way.
    """
    # Without a write-ahead log no process works on it, and SQLite need not make the files by which processes agree.
    how = "mode=ro" if path.with_name(path.name + "-wal").exists() else "immutable=1"
    with _Explained(path), closing(sqlite3.connect(f"{path.absolute().as_uri()}?{how}", uri=True, timeout=60)) as db:
        if _is_empty(db):  # killed before it had begun
            return Facts()
        version = _check_ours(path, db)
        name = db.execute("SELECT max(name) FROM about").fetchone()[0]
        in_doubt = db.execute("SELECT coalesce(sum(count), 0) FROM in_flight").fetchone()[0]
        unusable, saved = (
            db.execute(_COUNTED, (what,)).fetchone()[0] if version > 1 else 0 for what in ("unusable", "saved")
        )
        return Facts(name, db.execute(_PAID).fetchone()[0], unusable, in_doubt, saved)


def _is_empty(db: sqlite3.Connection) -> bool:
    return bool(db.execute("SELECT count(*) = 0 FROM sqlite_master").fetchone()[0])


def _check_ours(path: Path, db: sqlite3.Connection) -> int:
    """The format of a ledger that we can read."""
    if db.execute("PRAGMA application_id").fetchone()[0] != _OURS:
        raise ArtifactError(f"{path} is no ledger of dfml; move it away or name another run folder")
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    if not 1 <= version <= _FORMAT:
        raise ArtifactError(
            f"{path} is a ledger of format {version}, and this dfml knows 1 to {_FORMAT}; use the dfml that wrote it"
        )
    return version


class _Explained:
    """Errors of the file system and of SQLite as sentences. (As a generator it would cost as much as a statement.)"""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, sqlite3.OperationalError | OSError):
            raise DfmlError(
                f"{self._path}: the ledger cannot be used ({error}); see that the disk has space and the folder may be "
                "written, then resume: no answer in it is lost"
            ) from error
        # The other subclasses mean a mistake of ours, not of the file.
        if type(error) is sqlite3.DatabaseError:
            raise ArtifactError(f"{self._path} is damaged or no ledger of dfml ({error}); move it away") from error


class _Transaction(_Explained):
    """All that is written in it, or nothing."""

    def __init__(self, path: Path, db: sqlite3.Connection) -> None:
        super().__init__(path)
        self._db = db

    def __enter__(self) -> None:
        try:
            self._db.execute("BEGIN IMMEDIATE")
        except BaseException as error:  # an interrupt may come after it has begun
            self.__exit__(type(error), error, error.__traceback__)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with _Explained(self._path):
            try:
                if error is None:
                    self._db.execute("COMMIT")
            finally:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
        super().__exit__(kind, error, trace)


def _read(probs: bytes, count: int, way: int) -> ProbabilityArray:
    """Answers (count, way) as they were kept: in 4 bytes a number, or in 2."""
    kind = "<f2" if len(probs) == 2 * count * way else "<f4"
    return np.frombuffer(probs, kind).reshape(-1, way).astype(np.float32, copy=False)


def _tags(keys: bytes) -> Words:
    """The first half of each key, as a number."""
    return np.frombuffer(keys, "<u8")[::2]


def _shown(classes: Iterable[str]) -> str:
    names = list(classes)
    return ", ".join(names[:5]) + ", …" * (len(names) > 5)
