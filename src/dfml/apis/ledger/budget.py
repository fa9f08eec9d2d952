"""A number of queries that may be sent, of one API or of several together."""

import threading
from pathlib import Path

from dfml.errors import ConfigError


class Budget:
    """Queries that several ledgers share. It knows of a ledger from when that is opened: open all before asking any."""

    def __init__(self, total: int) -> None:
        self.total = checked_budget(total)
        self._held: dict[Path, int] = {}  # by each ledger: what it has spent, is sending and has set aside
        self._lock = threading.Lock()

    @property
    def remaining(self) -> int:
        """What is neither spent nor under way."""
        return max(0, self.total - sum(self._held.values()))

    def hold(self, ledger: Path, count: int) -> bool:
        """Set `count` queries aside for `ledger`; False, and nothing is, if there are not so many left."""
        with self._lock:
            if count > self.remaining:
                return False
            self._held[ledger] += count
            return True

    def enter(self, ledger: Path, spent: int) -> None:
        """`ledger` shares this from now on, and has spent so much already."""
        with self._lock:
            self._held[ledger] = spent

    def release(self, ledger: Path, count: int) -> None:
        """So many that `ledger` had set aside will not be sent, or do not count."""
        with self._lock:
            self._held[ledger] -= count


def checked_budget(budget: int) -> int:
    """`budget`, or `ConfigError` if there is no such number of queries."""
    if budget < 0:
        raise ConfigError(f"a budget is a number of queries, 0 or more, not {budget}")
    return budget
