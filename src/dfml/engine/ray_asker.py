"""The process on a Ray node that asks APIs: each for one caller at a time, handing answers on as they come."""

import itertools
import queue
import threading
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import dfml
from dfml.apis.blackbox import BlackBox, innermost, reach, release, rest
from dfml.apis.remote.api import RemoteApi
from dfml.apis.remote.host import Host
from dfml.apis.wire import Unwatched, ask_on_wire
from dfml.engine.parcel import PackedApi
from dfml.errors import BadAnswer, ConfigError, DfmlError
from dfml.runtime import work_beside_others

SentImages = NDArray[np.uint8] | NDArray[np.float32]
"""images (n, c, h, w), as levels of 255 or in [0, 1]"""
ToldPart = tuple[list[int], NDArray[np.float32], int]
"""rows, the answers (m, k) to them, and how many images were answered unusably meanwhile"""
_Arrival = ToldPart | Exception | None
"""answers, or how it ended"""


class _Teller(Unwatched):
    """Tells the caller of answers that were none: the ledger is there."""

    def __init__(self, arrived: "queue.SimpleQueue[_Arrival]") -> None:
        self._arrived, self._sent, self._numbers = arrived, dict[int, int](), itertools.count()

    def sending(self, rows: Sequence[int]) -> int:
        request = next(self._numbers)
        self._sent[request] = len(rows)
        return request

    def ended(self, request: int, error: BaseException) -> None:
        if isinstance(error, BadAnswer):
            self._arrived.put(([], np.empty((0, 0), np.float32), self._sent[request]))


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

    def ready(self) -> None:
        """Return when this process is up, if it is of the caller's version."""
        if self._version != dfml.__version__:
            raise ConfigError(
                f"a Ray node has dfml {dfml.__version__}, and here is {self._version}; install the same on all machines"
            )

    def ask(self, name: str, call: int, sent: SentImages) -> Iterator[ToldPart | DfmlError]:
        """Rows of the images and the answers (m, k) to them, as they arrive; at the end the error, if there was one.

        What arrives while the caller is busy travels together: one who has many APIs asked at once gets fewer, larger
        parts, and none gets an answer late.
        """
        images = torch.from_numpy(sent.astype(np.float32))  # a copy: what comes from the object store is read-only
        if sent.dtype == np.uint8:
            images /= 255
        with self._turns[name]:
            arrived: queue.SimpleQueue[_Arrival] = queue.SimpleQueue()
            threading.Thread(target=self._fetch, args=(name, call, images, arrived), daemon=True).start()
            nothing = np.empty((0, 0), np.float32)
            last: _Arrival = ([], nothing, 0)
            while isinstance(last, tuple):
                rows, scores, unusable = list[int](), list[NDArray[np.float32]](), 0
                last = arrived.get()
                while isinstance(last, tuple):
                    rows += last[0]
                    scores += [last[1]] * bool(last[0])
                    unusable += last[2]
                    if arrived.empty():
                        break
                    last = arrived.get()
                if rows or unusable:
                    yield rows, np.concatenate(scores) if scores else nothing, unusable
            if isinstance(last, DfmlError):
                yield last
            elif last is not None:
                raise last

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

    def _fetch(self, name: str, call: int, images: Tensor, arrived: "queue.SimpleQueue[_Arrival]") -> None:
        """Ask, and put down what arrives; at the end the error, or None."""
        try:
            for rows, scores in ask_on_wire(self._open(name), images, _Teller(arrived)):
                if call in self._unwanted:
                    break
                arrived.put((list(rows), scores.cpu().numpy(), 0))
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
