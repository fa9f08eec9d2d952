"""Stand-ins for APIs that are asked on Ray nodes. A lost process is replaced; what it had under way is in doubt."""

import hashlib
import itertools
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
import ray
import torch
from ray.exceptions import GetTimeoutError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from torch import Tensor

import dfml
from dfml.apis.blackbox import BlackBox, gather, prepare
from dfml.apis.wire import AnswerPart, Unwatched, Wire
from dfml.engine.parcel import pack
from dfml.engine.ray_asker import Again, ApiActor, Ended
from dfml.engine.ray_errors import cause_of, check_begun, first_line
from dfml.errors import ApiError, BudgetExceeded, DfmlError, Lost, Unreachable

PIECE = 256
"""Images travel in multiples of so many: a multiple of every backend's own batch, so that batches stay as they are."""
PIECE_BYTES = 16 << 20
KEPT_BYTES = 32 << 20
"""of 8-bit images that stay in the object store for the next API that is asked about them"""
UNREAD = 2
"""parts of an answer that may wait for us here; what comes meanwhile is put together on the node"""
STARTING = 300.0
"""seconds in which a process can be started somewhere, or we give up"""


class Share:
    """Some APIs and the one actor that holds them; when it is lost, another takes its place."""

    def __init__(self, apis: Sequence[BlackBox], node: str, *, at_once: int) -> None:
        self._apis, self._lock = apis, threading.Lock()
        self._class = ray.remote(max_restarts=0, concurrency_groups={"control": 1})(ApiActor)
        self._at_once = max(1, min(at_once, len(apis)))
        self._proven, self._stopped = False, threading.Event()
        self._actor: Any = self._start(NodeAffinitySchedulingStrategy(node, soft=True), successor=False)

    def actor(self) -> Any:
        """The actor, once it is up; a new one, where Ray finds room, if it was lost."""
        ends = time.monotonic() + STARTING
        with self._lock:
            while not self._proven:
                if self._stopped.is_set():
                    raise Unreachable("the run was stopped")
                if self._actor is None:
                    self._actor = self._start("DEFAULT", successor=True)
                try:
                    ray.get(self._actor.ready.remote(), timeout=1.0)
                    self._proven = True
                except RayTaskError as error:
                    raise cause_of(error) from None
                except RayError as error:
                    if time.monotonic() > ends:
                        raise Unreachable(f"Ray starts no process ({first_line(error)}); see `ray status`") from None
                    if not isinstance(error, GetTimeoutError):  # else it is still being started
                        # Ray takes a while to see that a node is gone, and may until then have chosen that one.
                        check_begun(error)
                        self._end()
                        self._stopped.wait(0.2)
            return self._actor

    def lost(self, actor: Any) -> None:
        """`actor` does not answer any more: see to it that it is gone before there is another."""
        with self._lock:
            if self._actor is actor:
                self._end()

    def tell(self, what: str, *about: Any) -> None:
        """Tell the actor to `drop`, `rest` or `close`, if there is one, and do not wait for it."""
        if (actor := self._actor) is not None:
            _control(getattr(actor, what)).remote(*about)

    def stop_waiting(self, name: str) -> None:
        """The run ends: stop waiting for the API of that name and for a process to start."""
        self._stopped.set()
        self.tell("close", name)

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._end()

    def _start(self, strategy: Any, *, successor: bool) -> Any:
        options = self._class.options(max_concurrency=self._at_once, scheduling_strategy=strategy)
        return options.remote(dfml.__version__, successor, *(pack(api) for api in self._apis))

    def _end(self) -> None:
        if self._actor is not None:
            ray.kill(self._actor)
        self._actor, self._proven = None, False


class ImageStore:
    """Images on their way to nodes. Pictures that many APIs are asked about go into the object store once."""

    def __init__(self) -> None:
        self._kept: OrderedDict[bytes, tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()

    def send(self, images: Tensor) -> Any:
        """`images` (n, c, h, w) as Ray carries them: in 8 bits where that loses nothing."""
        levels = (images * 255).round()
        if not torch.equal(levels / 255, images):
            return images.numpy()
        pixels = levels.to(torch.uint8).numpy()
        key = hashlib.blake2b(repr(pixels.shape).encode() + pixels.tobytes()).digest()
        with self._lock:
            if key not in self._kept:
                self._kept[key] = ray.put(pixels), pixels.nbytes
                while len(self._kept) > 1 and sum(size for _, size in self._kept.values()) > KEPT_BYTES:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(key)
            return self._kept[key][0]


class RayApi:
    """The stand-in for an API that an actor holds. If that is lost with answers under way, `Lost` says so."""

    answers_are_checked: Literal[True] = True

    _calls = itertools.count()

    def __init__(self, api: BlackBox, share: Share, post: ImageStore) -> None:
        self.spec, self._share, self._post = api.spec, share, post

    def __call__(self, images: Tensor) -> Tensor:
        """Class probabilities (n, k) for images (n, c, h, w) in [0, 1]."""
        return gather(self, images)

    def answers_in_parts(self, images: Tensor) -> Iterator[tuple[Sequence[int], Tensor]]:
        """Rows of `images` and their class probabilities, as they arrive."""
        yield from self.answers_on_wire(images, Unwatched())

    def answers_on_wire(self, images: Tensor, wire: Wire) -> Iterator[AnswerPart]:
        """The same; a request, as `wire` sees it, is what travels to the actor together."""
        ready = prepare(self.spec, images).detach().cpu()
        channels, height, width = self.spec.image
        piece = PIECE * max(1, PIECE_BYTES // (4 * channels * height * width * PIECE))
        for start in range(0, len(ready), piece):
            part = ready[start : start + piece]
            errand = _Errand(wire, range(start, start + len(part)))
            try:
                for rows, scores in self._ask(part, errand):
                    yield errand.places(rows), scores
            except DfmlError as error:
                # What had a price has been told of: the rest was not answered, unless nobody is left to tell.
                errand.ended(error if isinstance(error, Lost) else ApiError(str(error)))
                raise

    def reach(self) -> None:
        """`Unreachable` if a node sees no server there."""
        actor = self._share.actor()
        try:
            error = ray.get(actor.reach.remote(self.spec.name))
        except RayError as lost:
            self._share.lost(actor)
            raise self._lost(lost) from None
        if error is not None:
            raise error

    def rest(self) -> None:
        """Give back what the API needs only while it is asked."""
        self._share.tell("rest", self.spec.name)

    def close(self) -> None:
        """End all waiting for this API."""
        self._share.stop_waiting(self.spec.name)

    def _ask(self, images: Tensor, errand: "_Errand") -> Iterator[tuple[list[int], Tensor]]:
        actor, call, over = self._share.actor(), next(self._calls), False
        options = {"num_returns": "streaming", "_generator_backpressure_num_objects": UNREAD}
        answers = actor.ask.options(**options).remote(self.spec.name, call, self._post.send(images))
        try:
            for answer in answers:
                match ray.get(answer):
                    case DfmlError() as error:
                        over = True
                        raise error
                    case Ended(rows, error):
                        errand.ended(error, rows)
                    case Again(number, rows):
                        _control(actor.reply).remote(call, number, errand.refusal(rows))
                    case rows, scores:
                        yield rows, torch.from_numpy(np.array(scores))
            over = True
        except RayTaskError as error:
            over = True
            raise cause_of(error) from None
        except RayError as error:
            over = True
            self._share.lost(actor)
            raise self._lost(error) from None
        finally:
            if not over:
                self._share.tell("drop", call)

    def _lost(self, error: RayError) -> Lost:
        return Lost(f"{self.spec.name}: the process that asked it on a Ray node was lost ({first_line(error)})")


class _Errand:
    """Images that travel to the actor together: one request, as `wire` sees it, and another for what is sent again."""

    def __init__(self, wire: Wire, rows: range) -> None:
        self._wire, self._rows = wire, rows
        self._requests = [wire.sending(rows)]

    def places(self, rows: Sequence[int]) -> list[int]:
        """Where rows of the errand stand in the call."""
        return [self._rows[row] for row in rows]

    def refusal(self, rows: Sequence[int]) -> str | None:
        """Why `rows` may not be sent again; None if they may, and then `wire` knows of it."""
        try:
            self._requests.append(self._wire.sending(self.places(rows)))
        except BudgetExceeded as error:
            return str(error)
        return None

    def ended(self, error: BaseException, rows: Sequence[int] | None = None) -> None:
        """`rows`, or all that are still under way, brought nothing that can be used."""
        places = None if rows is None else self.places(rows)
        for request in self._requests:
            self._wire.ended(request, error, places)


def _control(method: Any) -> Any:
    """`method` of an actor in a thread that is always free for it."""
    return method.options(concurrency_group="control")
