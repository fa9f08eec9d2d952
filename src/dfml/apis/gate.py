"""An API behind a gate: while that is shut, nothing goes out."""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from dfml.apis.blackbox import BlackBox, gather
from dfml.apis.wire import AnswerPart, Unwatched, Wire, ask_on_wire
from dfml.errors import BudgetExceeded


class Gated:
    """`api` while `is_open()`. It is asked before each request, so that shutting the gate ends a call half-way.

    A request that is held back ends as one that the budget forbids: nothing was sent, so nothing is paid for.
    """

    def __init__(self, api: BlackBox, is_open: Callable[[], bool]) -> None:
        self.api, self.spec, self.is_open = api, api.spec, is_open

    def __call__(self, images: Tensor) -> Tensor:
        """Class probabilities (n, k) for images (n, c, h, w) in [0, 1]."""
        if len(images) == 0:
            return torch.zeros(0, self.spec.way, device=images.device)
        return gather(self, images)

    def answers_in_parts(self, images: Tensor) -> Iterator[AnswerPart]:
        """Answers in the parts in which the API gives them."""
        return self.answers_on_wire(images, Unwatched())

    def answers_on_wire(self, images: Tensor, wire: Wire) -> Iterator[AnswerPart]:
        """The same, and `wire` knows of every request before it is sent."""
        return ask_on_wire(self.api, images, _Watched(wire, self))


class _Watched:
    """A wire that lets a request out only through an open gate."""

    def __init__(self, wire: Wire, gate: Gated) -> None:
        self._wire, self._gate = wire, gate
        self.ended, self.rescue = wire.ended, wire.rescue

    def sending(self, rows: Sequence[int]) -> int:
        if not self._gate.is_open():
            raise BudgetExceeded(f"{self._gate.spec.name}: asking is switched off, and nothing was sent")
        return self._wire.sending(rows)
