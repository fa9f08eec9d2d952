"""Prior images, one query each: what many APIs say of pictures drawn from nothing."""

import hashlib
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dfml.apis.blackbox import ApiSpec, BlackBox, images_a_call, release, rest
from dfml.apis.ledger import Affordability, Metered
from dfml.engine.choice import WAITING
from dfml.errors import ApiError, BadAnswer, BudgetExceeded, Garbled, Lost, Refused
from dfml.recovery.recovered import ClassKey, RecoveredSet

IMAGES_A_CALL = {"local": 1000, "remote": 250}
"""Larger calls cost the ledger less, smaller ones show sooner that a slow server is at work. Large images are fewer."""
REST = 12.0
"""Seconds after which a remote API that failed is tried again, while others go on and once more when they are done."""


@dataclass(frozen=True)
class AnswerTable:
    """What m APIs said of n images; APIs with fewer than k classes are padded with columns of zeros."""

    images: Tensor  # uint8 (n, c, h, w)
    probs: Tensor  # (n, m, k)
    asked: Tensor  # bool (n, m): which API has answered about which image
    ways: Tensor  # long (m,): how many classes each API has

    def on(self, device: torch.device) -> "AnswerTable":
        """The same on `device`."""
        return AnswerTable(*(part.to(device) for part in (self.images, self.probs, self.asked, self.ways)))

    def rows(self, keep: Tensor) -> "AnswerTable":
        """The answers about some of the images."""
        keep = keep.to(self.images.device)
        return replace(self, images=self.images[keep], probs=self.probs[keep], asked=self.asked[keep])

    def part(self, rows: Tensor, apis: Tensor) -> "AnswerTable":
        """What some of the APIs, in their order, said of some of the images."""
        rows, apis = rows.to(self.images.device), apis.to(self.images.device)
        if len(apis) == len(self.ways):
            return self.rows(rows)
        pairs = rows[:, None], apis
        return AnswerTable(self.images[rows], self.probs[pairs], self.asked[pairs], self.ways[apis])

    @classmethod
    def joined(cls, tables: "Sequence[AnswerTable]") -> "AnswerTable":
        """The answers of the same APIs about several lots of images, one after the other."""
        if len(tables) == 1:
            return tables[0]
        return cls(
            torch.cat([table.images for table in tables]),
            torch.cat([table.probs for table in tables]),
            torch.cat([table.asked for table in tables]),
            tables[0].ways,
        )

    def digest(self) -> str:
        """The same for the same answers to the same images, and for no others."""
        parts = (part.cpu().numpy().tobytes() for part in (self.images, self.probs, self.asked, self.ways))
        return hashlib.sha256(b"".join(parts)).hexdigest()


def surest(answers: AnswerTable, column: int, spec: ApiSpec, *, count: int = 4, classes: int = 20) -> RecoveredSet:
    """For each of the first `classes` classes of API `column`, the `count` images it gives most to that class."""
    asked = answers.asked[:, column].nonzero().flatten()
    probs = answers.probs[asked, column, : spec.way]
    shown = min(classes, spec.way)
    best = probs[:, :shown].topk(min(count, len(probs)), dim=0).indices  # (count, shown)
    rows = best.T.flatten()
    return RecoveredSet(
        images=answers.images[asked[rows]].float() / 255,
        targets=torch.arange(shown).repeat_interleave(len(best)),
        probs=probs[rows],
        classes=tuple(ClassKey(spec.name, name) for name in spec.classes),
        queries=len(asked),
    )


def ask_all(
    apis: Sequence[BlackBox],
    images: Tensor,
    *,
    rows: Sequence[Tensor],
    workers: int = 1,
    waiting: int = WAITING,
    on_answers: Callable[[str, int], None] = lambda api, images: None,
    on_failure: Callable[[str, ApiError], None] = lambda api, error: None,
) -> AnswerTable:
    """Ask API i about the images at `rows[i]` of the uint8 `images` (n, c, h, w); `sharing` says which those should be.

    So many local APIs are asked at once as there are `workers`, and `waiting` remote ones. An API that is remote and
    fails, or whose process was lost, rests while the others go on, is tried again, and given up, with what it has
    answered so far, when it fails after all others are done. What comes out does not depend on who was how fast.
    """
    table = _Table(apis, images, rows, on_answers)
    remote = sum(api.spec.terms.remote for api in apis)
    here, away = ThreadPoolExecutor(workers), ThreadPoolExecutor(max(1, min(waiting, remote)))
    running: dict[Future[None], int] = {}
    resting = dict.fromkeys(range(len(apis)), 0.0)  # when it may be asked (again)
    last = set[int]()  # those that will not be tried once more
    try:
        while running or resting:
            others_done = last >= set(running.values()) and min(resting.values(), default=0.0) > 0
            for column in [column for column, due in resting.items() if due <= time.monotonic()]:
                del resting[column]
                if others_done:
                    last.add(column)
                pool = away if apis[column].spec.terms.remote else here
                running[pool.submit(table.ask, column)] = column
            if not running:
                time.sleep(max(0.0, min(resting.values()) - time.monotonic()))
                continue
            pause = max(0.0, min(resting.values()) - time.monotonic()) if resting else None
            for future in wait(running, pause, FIRST_COMPLETED).done:
                column, error = running.pop(future), future.exception()
                if isinstance(error, ApiError):
                    useless = isinstance(error, BadAnswer | Refused | BudgetExceeded) and not isinstance(error, Garbled)
                    may_pass = apis[column].spec.terms.remote or isinstance(error, Lost)
                    if useless or column in last or not may_pass:
                        table.take_known(column)
                        on_failure(apis[column].spec.name, error)
                    else:
                        resting[column] = time.monotonic() + REST
                elif error is not None:
                    raise error
    except BaseException:
        table.stopped.set()
        for api in apis:
            release(api)  # threads that wait for an answer wake up
        raise
    finally:
        for pool in (here, away):
            pool.shutdown(cancel_futures=True)
    ways = torch.tensor([api.spec.way for api in apis])
    return AnswerTable(images, table.probs, table.asked, ways)


def _within_budget(api: BlackBox, images: Tensor) -> Tensor:
    """Answers (n, k); where the budget does not pay for all, those that it pays for are on file when this raises."""
    try:
        return api(images)
    except BudgetExceeded:
        if isinstance(api, Metered) and (rows := Affordability(api).part(images)):
            api(images[rows])
        raise


class _Table:
    """The answers as they come in, each in its place."""

    def __init__(
        self,
        apis: Sequence[BlackBox],
        images: Tensor,
        rows: Sequence[Tensor],
        on_answers: Callable[[str, int], None],
    ) -> None:
        self.apis, self.images, self.rows, self.on_answers = apis, images, rows, on_answers
        self.probs = torch.zeros(len(images), len(apis), max(api.spec.way for api in apis))
        self.asked = torch.zeros(len(images), len(apis), dtype=torch.bool)
        self.stopped = threading.Event()

    def ask(self, column: int) -> None:
        """Ask one API for what it has not answered yet."""
        api = self.apis[column]
        for rows in self._calls(column):
            if self.stopped.is_set():
                return
            if not bool(self.asked[rows, column].all()):
                self._put(column, rows, _within_budget(api, self._pixels(rows)))
                self.on_answers(api.spec.name, len(rows))
        rest(api)  # of a thousand APIs, only those at work hold files and memory

    def take_known(self, column: int) -> None:
        """What an API has answered of a call that failed: it is paid for, and on file."""
        api = self.apis[column]
        for rows in self._calls(column):
            if isinstance(api, Metered) and not bool(self.asked[rows, column].all()):
                found, answers = api.known(self._pixels(rows))
                self._put(column, rows[found], answers)

    def _calls(self, column: int) -> Sequence[Tensor]:
        """The rows of each call to one API."""
        spec = self.apis[column].spec
        most = IMAGES_A_CALL["remote" if spec.terms.remote else "local"]
        calls: Sequence[Tensor] = self.rows[column].split(images_a_call(most, self.images.shape[1:], spec.image))
        return calls

    def _pixels(self, rows: Tensor) -> Tensor:
        """Some of the images as floats in [0, 1]; whole rows are copied, where indexing would copy pixel by pixel."""
        return self.images.index_select(0, rows).float().div_(255)

    def _put(self, column: int, rows: Tensor, answers: Tensor) -> None:
        self.probs[rows, column, : answers.shape[1]] = answers
        self.asked[rows, column] = True
