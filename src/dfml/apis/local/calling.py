"""A user's function, called whatever kind it is: one that returns, one that yields, `async` or not."""

import asyncio
import inspect
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import numpy as np

MISTAKES = (
    TypeError,
    AttributeError,
    NameError,
    LookupError,
    ImportError,
    SyntaxError,
    AssertionError,
    ArithmeticError,
    NotImplementedError,
)
"""What a function raises that is wrong in itself: calling it again is useless."""


class Background:
    """An event loop in a thread of its own: clients that belong to one loop meet the same one in every call."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """What `work` comes to, from any thread, whether that has a loop or not."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, daemon=True, name="dfml async").start()
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise


def answers(
    function: Callable[[np.ndarray], Any], pixels: np.ndarray, background: Background
) -> Iterator[tuple[Any, int]]:
    """What `function` says of `pixels`, in the pieces in which it says it, and how many images each is about."""
    answer = function(pixels)
    if inspect.isawaitable(answer):
        answer = background.run(_awaited(answer))
    if inspect.isasyncgen(answer):
        while (piece := background.run(_next(answer))) is not _END:
            yield _piece(piece)
    elif inspect.isgenerator(answer):
        yield from map(_piece, answer)
    else:
        yield answer, len(pixels)


_END = object()


async def _awaited(answer: Any) -> Any:
    return await answer


async def _next(answer: Any) -> Any:
    return await anext(answer, _END)


def _piece(piece: Any) -> tuple[Any, int]:
    """What is yielded is the answer to the next image, or a table (m, k) for the next m."""
    several = isinstance(piece, np.ndarray) and piece.ndim == 2
    return (piece, len(piece)) if several else ([piece], 1)
