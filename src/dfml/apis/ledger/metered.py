"""An API as everybody sees it who asks: behind its ledger."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from dfml.apis.blackbox import BlackBox, Checked, check_answer, innermost, prepare
from dfml.apis.ledger.calls import Call
from dfml.apis.ledger.fingerprint import fingerprints
from dfml.apis.ledger.ledger import Ledger
from dfml.apis.wire import AnswerPart, ask_on_wire
from dfml.errors import BadAnswer


class Metered:
    """`api` behind its ledger: counted, within budget, every answer kept, the same image never paid for twice."""

    def __init__(self, api: BlackBox, ledger: Ledger) -> None:
        self.api, self.ledger, self.spec = api, ledger, api.spec
        self._checked = isinstance(innermost(api), Checked)
        ledger.belongs_to(self.spec)

    def __call__(self, images: Tensor) -> Tensor:
        """Class probabilities (n, k) for images (n, c, h, w) in [0, 1]."""
        ready = images.detach()
        if ready.shape[1:] != self.spec.image or ready.dtype != torch.float32:
            ready = prepare(self.spec, ready)  # what fits already is checked by the API, when it is sent
        if len(ready) == 0:
            return torch.zeros(0, self.spec.way, device=images.device)

        def send(places: list[int], call: Call) -> Iterator[AnswerPart]:
            for rows, scores in ask_on_wire(self.api, ready if len(places) == len(ready) else ready[places], call):
                try:
                    answers = scores if self._checked else check_answer(self.spec, scores, len(rows))
                except BadAnswer:
                    call.waste(rows)
                    raise
                yield rows, answers

        answers = self.ledger.answers(self.spec, fingerprints(self.spec, ready), send)
        return torch.from_numpy(answers).to(images.device)

    def rest(self) -> None:
        """Close the ledger's file until the next query."""
        self.ledger.rest()

    def known(self, images: Tensor) -> tuple[list[int], Tensor]:
        """The m of `images` that are on file, and their class probabilities (m, k); nothing is asked."""
        keys = fingerprints(self.spec, prepare(self.spec, images))
        found = self.ledger.known(self.spec, keys)
        rows = [row for row, key in enumerate(keys) if key in found]
        answers = np.array([found[keys[row]] for row in rows], np.float32).reshape(-1, self.spec.way)
        return rows, torch.from_numpy(answers)
