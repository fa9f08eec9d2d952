"""The file of a journal: its tables, whether it is ours, what it says untouched, and its errors as sentences."""

import sqlite3
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from dfml.apis.ledger.fingerprint import KEY_BYTES
from dfml.errors import ArtifactError, DfmlError

OURS, FORMAT = 0x64666D6C, 2  # "dfml" in ASCII
PAID = f"SELECT coalesce((SELECT first + length(keys) / {KEY_BYTES} FROM answers ORDER BY first DESC LIMIT 1), 0)"
COUNTED = "SELECT coalesce((SELECT count FROM counts WHERE what = ?), 0)"
SENT = "SELECT coalesce(sum(count), 0) FROM in_flight"
SCHEMA = """
CREATE TABLE about (name TEXT NOT NULL, classes TEXT NOT NULL);
-- Answers are numbered in the order they came. A row holds those of one request: their keys and probabilities, joined.
CREATE TABLE answers (first INTEGER PRIMARY KEY, keys BLOB NOT NULL, probs BLOB NOT NULL);
-- Requests that were about to be sent: whatever is still here when no process works was in flight at a crash.
CREATE TABLE in_flight (id INTEGER PRIMARY KEY AUTOINCREMENT, count INTEGER NOT NULL);
"""
SINCE_2 = "CREATE TABLE counts (what TEXT PRIMARY KEY, count INTEGER NOT NULL)"
"""how many answers were unusable, and how many the file saved"""


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
    with Explained(path), closing(sqlite3.connect(f"{path.absolute().as_uri()}?{how}", uri=True, timeout=60)) as db:
        if is_empty(db):  # killed before it had begun
            return Facts()
        version = check_ours(path, db)
        name = db.execute("SELECT max(name) FROM about").fetchone()[0]
        in_doubt = db.execute(SENT).fetchone()[0]
        unusable, saved = (
            db.execute(COUNTED, (what,)).fetchone()[0] if version > 1 else 0 for what in ("unusable", "saved")
        )
        return Facts(name, db.execute(PAID).fetchone()[0], unusable, in_doubt, saved)


def is_empty(db: sqlite3.Connection) -> bool:
    return bool(db.execute("SELECT count(*) = 0 FROM sqlite_master").fetchone()[0])


def check_ours(path: Path, db: sqlite3.Connection) -> int:
    """The format of a ledger that we can read."""
    if db.execute("PRAGMA application_id").fetchone()[0] != OURS:
        raise ArtifactError(f"{path} is no ledger of dfml; move it away or name another run folder")
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    if not 1 <= version <= FORMAT:
        raise ArtifactError(
            f"{path} is a ledger of format {version}, and this dfml knows 1 to {FORMAT}; use the dfml that wrote it"
        )
    return version


class Explained:
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
