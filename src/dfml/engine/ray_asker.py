"""The process on a Ray node that asks APIs: each for one caller at a time, handing answers on as they come."""

import itertools
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import dfml
from dfml.apis.blackbox import BlackBox, innermost, reach, release, rest
from dfml.apis.remote.api import RemoteApi
from dfml.apis.remote.host import Host
from dfml.apis.wire import Unwatched, ask_on_wire, cost_nothing
from dfml.engine.parcel import PackedApi
from dfml.errors import BudgetExceeded, ConfigError, DfmlError
from dfml.runtime import work_beside_others

_GONE = "nobody waits for this answer any more"
SentImages = NDArray[np.uint8] | NDArray[np.float32]
"""images (n, c, h, w), as levels of 255 or in [0, 1]"""
ToldPart = tuple[list[int], NDArray[np.float32]]
"""rows, and the answers (m, k) to them"""


@dataclass(frozen=True)
class Ended:
    """A request was paid for, or perhaps, and brought nothing that can be used; the kind of `error` tells which."""

    rows: list[int]
    error: BaseException


@dataclass(frozen=True)
class Again:
    """May these rows, which have cost something already, be sent again? `ApiActor.reply` tells."""

    number: int
    rows: list[int]


_Arrivals = queue.SimpleQueue[ToldPart | Ended | Again | Exception | None]
"""what happens, and at the end the error or None"""


class _Teller(Unwatched):
    """Tells the caller, where the ledger is, of what costs more than the caller has set aside."""

    def __init__(self, arrived: _Arrivals, ask_back: Callable[[Again], None]) -> None:
        self._arrived, self._ask_back, self._numbers = arrived, ask_back, itertools.count()
        self._sent: dict[int, list[int]] = {}
        self._spent = set[int]()  # rows whose price is gone

    def sending(self, rows: Sequence[int]) -> int:
        request = next(self._numbers)
        if again := self._spent.intersection(rows):
            self._ask_back(Again(request, sorted(again)))
            self._spent -= again
        self._sent[request] = list(rows)
        return request

    def ended(self, request: int, error: BaseException, rows: Sequence[int] | None = None) -> None:
        gone = self._sent.pop(request) if rows is None else list(rows)
        if not cost_nothing(error):
            self._spent.update(gone)
            self._arrived.put(Ended(gone, error))


class ApiActor:
    """An actor that holds some APIs."""

    def __init__(self, version: str, successor: bool, *parcels: PackedApi) -> None:
        work_beside_others()
        self._version, self._successor = version, successor
        self._parcels = {parcel.name: parcel for parcel in parcels}
        self._turns = {parcel.name: threading.Lock() for parcel in parcels}
        self._opening = threading.Lock()
        self._apis: dict[str, BlackBox] = {}
        self._hosts: dict[str, Host] = {}  # APIs of one server share its connections
        self._unwanted = set[int]()
        self._replies: dict[tuple[int, int], queue.SimpleQueue[str | None]] = {}  # by call and question

    def ready(self) -> None:
        """Return when this process is up, if it is of the caller's version."""
        if self._version != dfml.__version__:
            raise ConfigError(
                f"a Ray node has dfml {dfml.__version__}, and here is {self._version}; install the same on all machines"
            )

    def ask(self, name: str, call: int, sent: SentImages) -> Iterator[ToldPart | Ended | Again | DfmlError]:
        """Rows of the images and the answers (m, k) to them, as they arrive; at the end the error, if there was one.

        What arrives while the caller is busy travels together: one who has many APIs asked at once gets fewer, larger
        parts, and none gets an answer late.
        """
        images = torch.from_numpy(sent.astype(np.float32))  # a copy: what comes from the object store is read-only
        if sent.dtype == np.uint8:
            images /= 255
        with self._turns[name]:
            arrived: _Arrivals = queue.SimpleQueue()
            threading.Thread(target=self._fetch, args=(name, call, images, arrived), daemon=True).start()
            yield from _put_together(arrived)

    def reply(self, call: int, number: int, refusal: str | None) -> None:
        """The answer to `Again`: why not, or None. Where the call was dropped meanwhile, nobody waits for it."""
        if (waiting := self._replies.get((call, number))) is not None:
            waiting.put(refusal)

    def reach(self, name: str) -> DfmlError | None:
        """Why the API's server does not answer, if so."""
        try:
            reach(self._open(name))
        except DfmlError as error:
            return error
        return None

    def drop(self, call: int) -> None:
        """The caller has given up `call`: send no more for it."""
        self._unwanted.add(call)
        for key, reply in list(self._replies.items()):
            if key[0] == call:
                reply.put(_GONE)

    def rest(self, name: str) -> None:
        """Give back what the API needs only while it is asked."""
        if self._turns[name].acquire(blocking=False):  # else somebody asks it again already
            try:
                rest(self._open(name))
            finally:
                self._turns[name].release()

    def close(self, name: str) -> None:
        """End all waiting for this API."""
        release(self._open(name))

    def _fetch(self, name: str, call: int, images: Tensor, arrived: _Arrivals) -> None:
        """Ask, and put down what arrives; at the end the error, or None."""

        def ask_back(question: Again) -> None:
            reply = self._replies[call, question.number] = queue.SimpleQueue()
            arrived.put(question)
            refusal = _GONE if call in self._unwanted else reply.get()
            del self._replies[call, question.number]
            if refusal is not None:
                raise BudgetExceeded(refusal)

        try:
            for rows, scores in ask_on_wire(self._open(name), images, _Teller(arrived, ask_back)):
                if call in self._unwanted:
                    break
                arrived.put((list(rows), scores.cpu().numpy()))
            arrived.put(None)
        except Exception as error:
            arrived.put(error)

    def _open(self, name: str) -> BlackBox:
        with self._opening:
            if name not in self._apis:
                self._apis[name] = api = self._parcels[name].open()
                del self._parcels[name]
                inner = innermost(api)
                if isinstance(inner, RemoteApi):
                    inner.host = self._hosts.setdefault(inner.host.origin, inner.host)
                    if self._successor:
                        inner.gate.take_over()
            return self._apis[name]


def _put_together(arrived: _Arrivals) -> Iterator[ToldPart | Ended | Again | DfmlError]:
    """What arrives, until its end; answers that wait here are joined."""
    while True:
        told, rows, scores = arrived.get(), list[int](), list[NDArray[np.float32]]()
        while isinstance(told, tuple):
            rows += told[0]
            scores.append(told[1])
            if arrived.empty():
                break
            told = arrived.get()
        if rows:
            yield rows, np.concatenate(scores)
        if isinstance(told, Ended | Again | DfmlError):
            yield told
        elif isinstance(told, Exception):
            raise told
        if told is None or isinstance(told, Exception):
            return
