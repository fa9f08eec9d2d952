"""The only place that counts: every answer paid for is kept, none is paid for twice, and no budget is passed."""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from dfml.apis.blackbox import ApiSpec
from dfml.apis.ledger.budget import Budget, checked_budget
from dfml.apis.ledger.calls import Call
from dfml.apis.ledger.journal import AnswerArray, Journal, ProbabilityArray
from dfml.apis.ledger.journal_file import Facts, read_only
from dfml.apis.wire import AnswerPart
from dfml.errors import BudgetExceeded, Lost

WIDE = 100
"""classes above which answers are kept in 2 bytes a number instead of 4: what learning can use of them is in those"""
LOSSES = 5
"""How often in a row the process that asks may be lost, without a single answer between, before we give up."""


class Ledger:
    """The answers of one API in one file. Threads may share it; `Metered` is the way to use it.

    Of every API it knows four numbers: `queries`, the answers it keeps; `unusable`, answers that were none; `in_doubt`,
    images that were on the wire when a process died or a connection broke; and what it `saved`. `budget` bounds the
    first three together for this API, `shared` for all ledgers that hold the same `Budget`; both count what earlier
    processes sent. With `forgive_doubt` what is in doubt does not count. Answers of more than `WIDE` classes are kept,
    and used, in float16, unless `exact`. The file is open but for times of `rest`.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        budget: int | None = None,
        shared: Budget | None = None,
        forgive_doubt: bool = False,
        exact: bool = False,
    ) -> None:
        self.path, self.budget, self.shared = Path(path), None if budget is None else checked_budget(budget), shared
        self.forgive_doubt, self.exact = forgive_doubt, exact
        self.hits = 0
        """images answered without paying, since this ledger was opened"""
        self._untold = 0  # of those, how many the file does not know of
        self._reserved = 0  # images that calls may still send
        self._open: Journal | None = Journal(self.path)
        self._asked: set[bytes] = set()  # keys that some thread is asking for
        self._changed = threading.Condition()  # also the lock of everything here
        if shared is not None:
            shared.enter(self.path, self._journal.spent(forgive_doubt=forgive_doubt))

    @property
    def queries(self) -> int:
        """Answers paid for and kept, by this process and those before."""
        with self._changed:
            return self._facts.paid

    @property
    def unusable(self) -> int:
        """Images whose answers were paid for and could not be used."""
        with self._changed:
            return self._facts.unusable

    @property
    def in_doubt(self) -> int:
        """Images whose request was interrupted: perhaps paid for, and not kept."""
        with self._changed:
            return self._facts.in_doubt

    @property
    def saved(self) -> int:
        """Images that were answered from the file, by this process and those before."""
        with self._changed:
            return self._facts.saved + self._untold

    @property
    def remaining(self) -> int | None:
        """How many more images may be sent; None means any number."""
        with self._changed:
            own = None if self.budget is None else max(0, self.budget - self._spent - self._reserved)
        bounds = [own, None if self.shared is None else self.shared.remaining]
        return min((bound for bound in bounds if bound is not None), default=None)

    def answers(
        self, spec: ApiSpec, keys: list[bytes], send: Callable[[list[int], "Call"], Iterator[AnswerPart]]
    ) -> ProbabilityArray:
        """Answers (n, k) to the images with these keys: known ones from the file, the others through `send`.

        `send` gets the places of the unknown images in `keys` and the wire on which to tell of requests, and yields
        float32 probabilities for them; it is called outside the lock. An image that another thread is asking for is
        waited for. Where `send` ends with `Lost`, what it had not brought home is in doubt and is asked for again.
        """
        place = dict(zip(keys, range(len(keys)), strict=True))  # of equal images, one is enough
        answers = np.empty((len(keys), spec.way), np.float32)
        missing, paid, losses = list(place), set[bytes](), 0
        while missing:
            with self._changed:
                found = self._journal.find(missing, spec.way)
                for key, answer in found.items():
                    answers[place[key]] = answer
                if found:
                    missing = [key for key in missing if key not in found]
                    losses = 0
                mine = [key for key in missing if key not in self._asked] if self._asked else missing
                if mine:
                    self._reserve(spec, len(mine))
                    self._asked.update(mine)
                elif missing:
                    self._changed.wait()  # for the thread that asks for them
            if mine:
                places = [place[key] for key in mine]
                paid.update(mine)
                call = Call(self, spec, mine)
                try:
                    answers[places] = self._pay(call, send(places, call))
                except Lost:
                    losses += 1
                    if losses == LOSSES:
                        raise
                    continue
                missing = [] if len(mine) == len(missing) else [key for key in missing if key not in set(mine)]
        with self._changed:
            self.hits += len(keys) - len(paid)
            self._untold += len(keys) - len(paid)
        return answers if len(place) == len(keys) else answers[[place[key] for key in keys]]

    def known(self, spec: ApiSpec, keys: Sequence[bytes]) -> dict[bytes, ProbabilityArray]:
        """The answers (k,) to those of `keys` that are on file."""
        with self._changed:
            return self._journal.find(keys, spec.way)

    def belongs_to(self, spec: ApiSpec) -> None:
        """Make this the ledger of that API; `ConfigError` if it is another's or the classes of its answers changed."""
        with self._changed:
            self._journal.belongs_to(spec.name, spec.classes)

    def rest(self) -> None:
        """Close the file until it is needed again, unless some thread is asking."""
        with self._changed:
            if not self._asked:
                self.close()

    def close(self) -> None:
        with self._changed:
            if self._open is not None:
                try:
                    if self._untold:
                        self._open.save(self._untold)
                        self._untold = 0
                finally:
                    self._open.close()
                    self._open = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _journal(self) -> Journal:
        if self._open is None:
            self._open = Journal(self.path)
        return self._open

    @property
    def _facts(self) -> Journal | Facts:
        """What the file says, whether it is open or not."""
        return read_only(self.path) if self._open is None else self._open

    @property
    def _spent(self) -> int:
        """What counts against the budget already."""
        if self._open is not None:
            return self._open.spent(forgive_doubt=self.forgive_doubt)
        facts = read_only(self.path)
        return facts.paid + facts.unusable + (0 if self.forgive_doubt else facts.in_doubt)

    def _reserve(self, spec: ApiSpec, count: int) -> None:
        """Set `count` images aside, within all budgets, or raise."""
        if self.shared is not None and not self.shared.hold(self.path, count):
            raise BudgetExceeded(self._too_much_for_all(spec, count) + ", so none was sent; " + self._advice())
        if self.budget is not None and self._spent + self._reserved + count > self.budget:
            if self.shared is not None:
                self.shared.release(self.path, count)
            raise BudgetExceeded(self._too_much(spec, count) + ", so none was sent; " + self._advice())
        self._reserved += count

    def _announce(self, spec: ApiSpec, granted: int, *, more: int) -> int:
        """The number of a new request, of images that were set aside and of `more` that were not; or raise."""
        if more and self.shared is not None and not self.shared.hold(self.path, more):
            raise BudgetExceeded(self._too_much_for_all(spec, more) + "; " + self._advice())
        request = None
        try:
            # What other calls have set aside is theirs.
            limit = None if self.budget is None else self.budget - self._reserved + granted
            request = self._journal.announce(granted + more, limit=limit, forgive_doubt=self.forgive_doubt)
        finally:
            if request is None and more and self.shared is not None:
                self.shared.release(self.path, more)
        if request is None:
            raise BudgetExceeded(self._too_much(spec, granted + more) + "; " + self._advice())
        self._reserved -= granted
        return request

    def _too_much(self, spec: ApiSpec, count: int) -> str:
        return f"{spec.name}: {count} more queries would pass its budget ({self._told()})"

    def _too_much_for_all(self, spec: ApiSpec, count: int) -> str:
        assert self.shared is not None
        left = f"{self.shared.remaining} of {self.shared.total} left"
        return f"{spec.name}: {count} more queries would pass the budget of all APIs together ({left})"

    def _told(self) -> str:
        """What is spent, in words."""
        unusable, doubt = self._journal.unusable, 0 if self.forgive_doubt else self._journal.in_doubt
        parts = [f"{unusable:,} unusable"] * bool(unusable) + [f"{doubt:,} in doubt"] * bool(doubt)
        return f"{self._spent} of {self.budget} spent" + f", {' and '.join(parts)} among them" * bool(parts)

    def _advice(self) -> str:
        doubt = 0 if self.forgive_doubt else self._journal.in_doubt
        forgive = f", or use --forgive-doubt, so that the {doubt:,} in doubt do not count" if doubt else ""
        return f"raise it or ask for less{forgive}"

    def _pay(self, call: "Call", parts: Iterator[AnswerPart]) -> ProbabilityArray:
        """All answers of `call`, each on file before anybody sees it."""
        try:
            try:
                for rows, scores in parts:
                    call.keep(rows, scores)
                call.complete()
            finally:
                close = getattr(parts, "close", None)
                if close is not None:  # the caller may still rescue what arrives meanwhile
                    close()
        finally:
            call.end()
        return call.answers

    def _as_kept(self, spec: ApiSpec, scores: ProbabilityArray) -> AnswerArray:
        """Answers (n, k) as the file has them."""
        return scores if self.exact or spec.way <= WIDE else scores.astype(np.float16)

    def _settle(self, keys: Iterable[bytes]) -> None:
        """No thread asks for `keys` any more; threads that wait for them look again."""
        self._asked.difference_update(keys)
        self._changed.notify_all()

    def _give_back(self, count: int) -> None:
        """So many images that were set aside were not sent."""
        self._reserved -= count
        if self.shared is not None:
            self.shared.release(self.path, count)

    def _forgive(self, count: int) -> None:
        """So many images are in doubt now."""
        if self.shared is not None and self.forgive_doubt:
            self.shared.release(self.path, count)
