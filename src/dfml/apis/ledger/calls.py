"""One call's way through the ledger: what is on the wire, and what each request came to."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from dfml.apis.blackbox import ApiSpec
from dfml.apis.ledger.journal import ProbabilityArray
from dfml.apis.wire import cost_nothing
from dfml.errors import BadAnswer, DfmlError

if TYPE_CHECKING:
    from dfml.apis.ledger.ledger import Ledger


class Call:
    """The images of one call that are not on file, as the `Wire` on which an API is asked about them.

    All of them are reserved within the budgets when it begins. A request is announced when it goes out, and then ends
    in one of four ways: answered; unusable, where an answer came that is none; failed, where it cost nothing and what
    it took is reserved again; or in doubt, where that cannot be known. A caller that asks again for what was unusable
    or is in doubt takes more than was reserved, and gets it only while the budgets allow.
    """

    def __init__(self, ledger: "Ledger", spec: ApiSpec, keys: list[bytes]) -> None:
        self.answers: ProbabilityArray = np.empty((len(keys), spec.way), np.float32)
        self._ledger, self._spec, self._keys = ledger, spec, keys
        self._reserved, self._unanswered = len(keys), set(range(len(keys)))
        self._open: dict[int, set[int]] = {}  # the rows of each request that is on the wire

    def sending(self, rows: Sequence[int]) -> int:
        """Announce a request for `rows`, or raise `BudgetExceeded`."""
        with self._ledger._changed:
            granted = min(len(rows), self._reserved)
            request = self._ledger._announce(self._spec, granted, more=len(rows) - granted)
            self._reserved -= granted
            self._open[request] = set(rows)
            return request

    def ended(self, request: int, error: BaseException, rows: Sequence[int] | None = None) -> None:
        """These rows of `request`, or all, brought nothing of use: the kind of `error` tells what that cost."""
        with self._ledger._changed:
            open_rows = self._open.get(request, set())
            gone = open_rows if rows is None else open_rows.intersection(rows)
            if not gone:
                return
            if isinstance(error, BadAnswer):
                self._ledger._journal.waste({request: len(gone)})
            elif cost_nothing(error):
                self._ledger._journal.withdraw({request: len(gone)})
                self._reserved += len(gone)
                self._ledger._reserved += len(gone)
            else:
                whole = len(gone) == len(open_rows)
                self._doubt(request if whole else self._ledger._journal.split(request, len(gone)), len(gone))
            self._close(list(gone))

    def rescue(self, rows: Sequence[int], scores: Tensor) -> None:
        """Keep answers that came after the caller had left; where that fails, as on a full disk, they are in doubt."""
        with suppress(DfmlError):
            self.keep(rows, scores)

    def keep(self, rows: Sequence[int], scores: Tensor) -> None:
        """Put answers on file, before anybody sees them."""
        kept = self._ledger._as_kept(self._spec, scores.cpu().numpy())
        if isinstance(rows, range) and rows.step == 1:  # as where one request was answered
            keys = self._keys[rows.start : rows.stop]
            self.answers[rows.start : rows.stop] = kept
        else:
            keys = [self._keys[row] for row in rows]
            self.answers[list(rows)] = kept
        with self._ledger._changed:
            self._ledger._journal.keep(self._shares(rows), keys, kept)
            self._close(rows)
            self._ledger._settle(keys)
        self._unanswered.difference_update(rows)

    def waste(self, rows: Sequence[int]) -> None:
        """Answers came that are none."""
        with self._ledger._changed:
            self._ledger._journal.waste(self._shares(rows))
            self._close(rows)

    def complete(self) -> None:
        """`BadAnswer` if an image got no answer, though its API ended as if all was said."""
        if self._unanswered:
            self.waste(sorted(self._unanswered))
            sent, missing = len(self._keys), len(self._unanswered)
            raise BadAnswer(f"{self._spec.name}: {sent} images were sent, {missing} of them got no answer")

    def end(self) -> None:
        """Give back what was not sent. What is still on the wire will never be heard of: it is in doubt."""
        with self._ledger._changed:
            for request, rows in self._open.items():
                self._doubt(request, len(rows))
            self._open.clear()
            self._ledger._give_back(self._reserved)
            self._reserved = 0
            self._ledger._settle(self._keys[row] for row in self._unanswered)

    def _doubt(self, request: int, count: int) -> None:
        self._ledger._journal.abandon(request)
        self._ledger._forgive(count)

    def _shares(self, rows: Iterable[int]) -> dict[int, int]:
        """How many of `rows` belong to each request."""
        wanted = set(rows)
        return {request: len(share) for request, held in self._open.items() if (share := held & wanted)}

    def _close(self, rows: Iterable[int]) -> None:
        for request in list(self._open):
            self._open[request].difference_update(rows)
            if not self._open[request]:
                del self._open[request]
