"""What an API tells its ledger while it answers: which images go out, and what became of each request."""

from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

from torch import Tensor

from dfml.apis.blackbox import AnswersInParts, BlackBox
from dfml.errors import ApiError, BadAnswer, ConfigError, Unanswered

AnswerPart = tuple[Sequence[int], Tensor]
"""m rows of the images, and the answers (m, k) to them"""
IMAGES_A_BATCH = 256
"""Images that a local API is asked about at once: a multiple of every backend's own batch, so that those stay as they
are."""


class Wire(Protocol):
    """The one that counts. Any thread may call it; it writes down what it is told before it returns."""

    def sending(self, rows: Sequence[int]) -> int:
        """These rows of the images go out now, as one request; `BudgetExceeded`, and they must stay, if none is left.

        Returns a number by which `ended` knows the request; where answers come, they are handed on and need no word.
        """
        ...

    def ended(self, request: int, error: BaseException, rows: Sequence[int] | None = None) -> None:
        """These rows of that request, or all, got no answer of use; the kind of `error` tells what that cost."""
        ...

    def rescue(self, rows: Sequence[int], scores: Tensor) -> None:
        """Answers that came after the caller had stopped waiting."""
        ...


class Unwatched:
    """Counts nothing."""

    def sending(self, rows: Sequence[int]) -> int:
        return 0

    def ended(self, request: int, error: BaseException, rows: Sequence[int] | None = None) -> None: ...

    def rescue(self, rows: Sequence[int], scores: Tensor) -> None: ...


def cost_nothing(error: BaseException) -> bool:
    """Whether a request that ended so was not answered for certain: it is neither paid for nor in doubt."""
    return isinstance(error, ApiError | ConfigError) and not isinstance(error, BadAnswer | Unanswered)


@runtime_checkable
class TellsWire(AnswersInParts, Protocol):
    """An API that tells of each request by itself."""

    def answers_on_wire(self, images: Tensor, wire: Wire) -> Iterator[AnswerPart]:
        """As `answers_in_parts`, and `wire` knows of every request before it is sent."""
        ...


def ask_on_wire(api: BlackBox, images: Tensor, wire: Wire) -> Iterator[AnswerPart]:
    """The answers of any API in the parts in which it gives them; where it tells nothing, `wire` hears of batches."""
    # By attribute: to look whether it is a `TellsWire` takes as long as to find an answer on file.
    on_wire, in_parts = getattr(api, "answers_on_wire", None), getattr(api, "answers_in_parts", None)
    if on_wire is not None:
        yield from on_wire(images, wire)
    elif in_parts is not None:
        request = wire.sending(range(len(images)))
        try:
            yield from in_parts(images)
        except (ApiError, ConfigError) as error:
            wire.ended(request, error)
            raise
    else:
        for start in range(0, len(images), IMAGES_A_BATCH):
            batch = images[start : start + IMAGES_A_BATCH]
            rows = range(start, start + len(batch))
            request = wire.sending(rows)
            try:
                answers = api(batch)
            except (ApiError, ConfigError) as error:
                wire.ended(request, error)
                raise
            yield rows, answers
