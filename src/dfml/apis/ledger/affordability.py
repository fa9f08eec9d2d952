"""What a method may still ask, counting what is on file as free. No method does this sum itself."""

from collections.abc import Callable, Hashable

import torch
from torch import Tensor

from dfml.apis.blackbox import BlackBox
from dfml.apis.ledger.metered import Metered


class NotOnFile(Exception):
    """A rehearsal has come to the first question that would have to be paid for."""


class Affordability:
    """What the budgets of one API still pay for."""

    def __init__(self, api: Metered) -> None:
        self.api = api
        self._refused: dict[Hashable, tuple[int, int | None]] = {}

    def pays_for(
        self, most: int, rehearse: Callable[[BlackBox], object] | None = None, *, label: Hashable = None
    ) -> bool:
        """Whether questions that cost at most `most` can be asked to the end.

        `rehearse` asks them of the API that it is given. That one answers from the file alone and ends the rehearsal at
        the first question whose answer is not there: those before it are free. Questions that follow from their answers
        are the same in every rehearsal, so this finds again what a run had paid for before it was stopped. It is tried
        only where the budget alone is too small, and once for a `label` and a state of the ledger.
        """
        ledger = self.api.ledger
        remaining = ledger.remaining
        if remaining is None or remaining >= most:
            return True
        state = ledger.queries, remaining
        if rehearse is None or not state[0] or self._refused.get(label) == state:
            return False
        box = OnFile(self.api)
        try:
            rehearse(box)
        except NotOnFile:
            if remaining + box.found < most:
                self._refused[label] = state
                return False
        return True

    def part(self, images: Tensor) -> list[int]:
        """The rows of `images` (n, c, h, w) that can be had: those on file, and the first others that can be paid."""
        known = set(self.api.known(images)[0])
        unknown = [row for row in range(len(images)) if row not in known]
        return sorted(known | set(unknown[: self.api.ledger.remaining]))


class OnFile:
    """An API that answers from its ledger and is never asked; `NotOnFile` where an answer is missing."""

    def __init__(self, api: Metered) -> None:
        self.spec, self._api = api.spec, api
        self.found = 0
        """images that were answered"""

    def __call__(self, images: Tensor) -> Tensor:
        """Class probabilities (n, k) for images (n, c, h, w) in [0, 1]."""
        rows, answers = self._api.known(images)
        self.found += len(rows)
        if len(rows) < len(images):
            raise NotOnFile
        return answers.to(images.device) if len(images) else torch.zeros(0, self.spec.way, device=images.device)
