"""Threads that do the requests of one call, several at once, and lay down what each came to."""

import threading
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import NamedTuple

from torch import Tensor


class Outcome(NamedTuple):
    """What became of a request."""

    rows: range
    answers: Tensor | None = None
    """(n, k), if all went well"""
    error: BaseException | None = None


class Errands:
    """The first `count` rows of a call, cut into requests of at most `size()`, which threads take one after the other.

    `ask` comes to the answers (n, k) to its rows, or to None where these are to be cut smaller. After an error no other
    request is begun. No thread is two outcomes ahead of who takes them: what is paid for has to be put on file.
    """

    def __init__(
        self, count: int, ask: Callable[[range], Tensor | None], size: Callable[[], int], *, name: str
    ) -> None:
        self._ask, self._size, self._name = ask, size, name
        self._waiting, self._lock = deque([range(count)] if count else []), threading.Lock()
        self._outcomes = SimpleQueue[Outcome | None]()  # None is a thread's farewell
        self._room = SimpleQueue[None]()  # an entry for each outcome that may still be laid down
        self._threads = list[threading.Thread]()
        self._working = 0

    def staff(self, threads: int) -> bool:
        """Let so many threads work, or as many as there are requests; whether any does."""
        if self._working < threads and self._waiting:
            with self._lock:
                requests = sum(-(-len(rows) // self._size()) for rows in self._waiting)
            for _ in range(min(threads - self._working, requests)):
                self._make_room(2)
                self._working += 1
                self._threads.append(threading.Thread(target=self._work, name=self._name))
                self._threads[-1].start()
        return self._working > 0

    def outcomes(self) -> list[Outcome]:
        """What has been laid down since, after waiting for something to be."""
        found = [self._outcomes.get()]
        try:
            while True:
                found.append(self._outcomes.get_nowait())
        except Empty:
            pass
        told = [outcome for outcome in found if outcome is not None]
        self._working -= len(found) - len(told)
        self._make_room(len(told))
        return told

    def stop(self) -> None:
        """Begin no other request."""
        with self._lock:
            self._waiting.clear()

    def left(self) -> list[Outcome]:
        """Stop, wait for what is under way, and say what nobody has taken."""
        self.stop()
        told = list[Outcome]()
        while self._working:
            told += self.outcomes()
        for thread in self._threads:
            thread.join()
        return told

    def _make_room(self, outcomes: int) -> None:
        for _ in range(outcomes):
            self._room.put(None)

    def _work(self) -> None:
        while True:
            self._room.get()
            rows = self._next()
            if rows is None:
                break
            try:
                answers = self._ask(rows)
            except BaseException as error:
                self.stop()
                self._outcomes.put(Outcome(rows, error=error))
                continue
            if answers is None:
                with self._lock:
                    self._waiting.appendleft(rows)
                self._make_room(1)
            else:
                self._outcomes.put(Outcome(rows, answers))
        self._outcomes.put(None)

    def _next(self) -> range | None:
        """The next rows to ask for, taken from what waits."""
        with self._lock:
            if not self._waiting:
                return None
            rows, most = self._waiting.popleft(), self._size()
            if len(rows) > most:
                self._waiting.appendleft(rows[most:])
            return rows[:most]
