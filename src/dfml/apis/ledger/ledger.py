"""The only place that counts: every answer paid for is kept, none is paid for twice, and no budget is passed."""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, unquote

import numpy as np
import torch
from torch import Tensor

from dfml.apis.blackbox import ApiSpec, BlackBox, Checked, ask_in_parts, check_answer, innermost, prepare
from dfml.apis.ledger.fingerprint import fingerprints
from dfml.apis.ledger.journal import Facts, Journal, ProbabilityArray, read_only
from dfml.errors import ApiError, ArtifactError, BadAnswer, BudgetExceeded, ConfigError, Lost

Part = tuple[Sequence[int], Tensor]
"""m rows of what was sent, and the answers (m, k) to them"""
LOSSES = 5
"""How often in a row the process that asks may be lost, without a single answer between, before we give up."""


class Budget:
    """Queries that several ledgers share. It knows of a ledger from when that is opened: open all before asking any."""

    def __init__(self, total: int) -> None:
        self.total = _checked(total)
        self._held: dict[Path, int] = {}  # by each ledger: answers kept and images under way
        self._lock = threading.Lock()

    @property
    def remaining(self) -> int:
        """What is neither spent nor under way."""
        return max(0, self.total - sum(self._held.values()))

    def _hold(self, ledger: Path, count: int) -> bool:
        with self._lock:
            if count > self.remaining:
                return False
            self._held[ledger] += count
            return True

    def _enter(self, ledger: Path, spent: int) -> None:
        with self._lock:
            self._held[ledger] = spent

    def _give_back(self, ledger: Path, count: int) -> None:
        with self._lock:
            self._held[ledger] -= count


class Ledger:
    """The answers of one API in one file. Threads may share it; `Metered` is the way to use it.

    `budget` bounds the answers of this API, `shared` those of all ledgers that hold the same `Budget`. Both count what
    earlier processes paid. Requests that a crash interrupted count as `in_doubt`, not against a budget: a run that is
    resumed must be able to ask again what it lost. The file is open but for times of `rest`.
    """

    def __init__(self, path: str | Path, *, budget: int | None = None, shared: Budget | None = None) -> None:
        self.path, self.budget, self.shared = Path(path), None if budget is None else _checked(budget), shared
        self.hits = 0
        """images answered without paying, since this ledger was opened"""
        self._open: Journal | None = Journal(self.path)
        self._asked: set[bytes] = set()  # keys that some thread is asking for
        self._changed = threading.Condition()  # also the lock of everything here
        if shared is not None:
            shared._enter(self.path, self.queries)

    @property
    def queries(self) -> int:
        """Answers paid for, by this process and those before."""
        with self._changed:
            return self._facts.paid

    @property
    def in_doubt(self) -> int:
        """Images whose request was interrupted by a crash: perhaps paid for, and not kept."""
        with self._changed:
            return self._facts.in_doubt

    @property
    def remaining(self) -> int | None:
        """How many more images may be sent; None means any number."""
        with self._changed:
            under_way = 0 if self._open is None else self._open.in_flight
            own = None if self.budget is None else max(0, self.budget - self._facts.paid - under_way)
        bounds = [own, None if self.shared is None else self.shared.remaining]
        return min((bound for bound in bounds if bound is not None), default=None)

    def answers(
        self, spec: ApiSpec, keys: list[bytes], send: Callable[[list[int]], Iterable[Part]]
    ) -> ProbabilityArray:
        """Answers (n, k) to the images with these keys: known ones from the file, the others through `send`.

        `send` gets the places of the unknown images in `keys` and yields float32 probabilities for them; it is called
        outside the lock. An image that another thread is asking for is waited for. Where `send` ends with `Lost`, what
        it had not brought home is in doubt and is asked for again.
        """
        place = dict(zip(keys, range(len(keys)), strict=True))  # of equal images, one is enough
        answers = np.empty((len(keys), spec.way), np.float32)
        missing, paid, losses = list(place), set[bytes](), 0
        while missing:
            with self._changed:
                found = self._journal.find(missing, spec.way)
                for key, answer in found.items():
                    answers[place[key]] = answer
                if found:
                    missing = [key for key in missing if key not in found]
                    losses = 0
                mine = [key for key in missing if key not in self._asked] if self._asked else missing
                if mine:
                    request = self._reserve(spec, len(mine))
                    self._asked.update(mine)
                elif missing:
                    self._changed.wait()  # for the thread that asks for them
            if mine:
                places = [place[key] for key in mine]
                paid.update(mine)
                try:
                    answers[places] = self._pay(spec, request, mine, send(places))
                except Lost:
                    losses += 1
                    if losses == LOSSES:
                        raise
                    continue
                missing = [] if len(mine) == len(missing) else [key for key in missing if key not in set(mine)]
        with self._changed:
            self.hits += len(keys) - len(paid)
        return answers if len(place) == len(keys) else answers[[place[key] for key in keys]]

    def known(self, spec: ApiSpec, keys: Sequence[bytes]) -> dict[bytes, ProbabilityArray]:
        """The answers (k,) to those of `keys` that are on file."""
        with self._changed:
            return self._journal.find(keys, spec.way)

    def belongs_to(self, spec: ApiSpec) -> None:
        """Make this the ledger of that API; `ConfigError` if it is another's or its classes have changed."""
        with self._changed:
            self._journal.belongs_to(spec.name, spec.classes)

    def rest(self) -> None:
        """Close the file until it is needed again, unless some thread is asking."""
        with self._changed:
            if not self._asked:
                self.close()

    def close(self) -> None:
        with self._changed:
            if self._open is not None:
                self._open.close()
                self._open = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _journal(self) -> Journal:
        if self._open is None:
            self._open = Journal(self.path)
        return self._open

    @property
    def _facts(self) -> Journal | Facts:
        """What the file says, whether it is open or not."""
        return read_only(self.path) if self._open is None else self._open

    def _reserve(self, spec: ApiSpec, count: int) -> int:
        """Announce a request of `count` images, within all budgets, or raise."""
        if self.shared is not None and not self.shared._hold(self.path, count):
            raise BudgetExceeded(
                f"{spec.name}: {count} more queries would pass the budget of all APIs together "
                f"({self.shared.remaining} of {self.shared.total} left), so none was sent; raise it or ask for less"
            )
        request = None
        try:
            request = self._journal.announce(count, limit=self.budget)
        finally:
            if request is None and self.shared is not None:
                self.shared._give_back(self.path, count)
        if request is None:
            raise BudgetExceeded(
                f"{spec.name}: {count} more queries would pass its budget "
                f"({self._journal.paid} of {self.budget} spent), so none was sent; raise it or ask for less"
            )
        return request

    def _pay(self, spec: ApiSpec, request: int, keys: list[bytes], parts: Iterable[Part]) -> ProbabilityArray:
        """The answers (n, k) to `keys`, each on file before anybody sees it."""
        answers, unanswered = np.empty((len(keys), spec.way), np.float32), set(keys)
        try:
            for rows, scores in parts:
                part = [keys[row] for row in rows]
                answers[rows] = kept = scores.cpu().numpy()
                with self._changed:
                    self._journal.keep(request, part, kept)
                    self._settle(part)
                unanswered.difference_update(part)
            if unanswered:
                raise BadAnswer(f"{spec.name}: {len(keys)} images were sent, {len(unanswered)} of them got no answer")
        except BaseException as error:
            # An API that failed, or found no images in what it got, says so. All else leaves us in doubt.
            told = isinstance(error, ApiError | ConfigError) and not isinstance(error, Lost)
            self._release(request, unanswered, failed=told)
            raise
        return answers

    def _settle(self, keys: Iterable[bytes]) -> None:
        """No thread asks for `keys` any more; threads that wait for them look again."""
        self._asked.difference_update(keys)
        self._changed.notify_all()

    def _release(self, request: int, keys: set[bytes], *, failed: bool) -> None:
        """The images of `keys` were not answered: because the API failed, or for a reason that is not known."""
        with self._changed:
            self._settle(keys)
            if self.shared is not None:
                self.shared._give_back(self.path, len(keys))
            if failed:
                self._journal.withdraw(request)
            else:
                self._journal.abandon(request)


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

        def send(places: list[int]) -> Iterator[Part]:
            for rows, scores in ask_in_parts(self.api, ready if len(places) == len(ready) else ready[places]):
                yield rows, scores if self._checked else check_answer(self.spec, scores, len(rows))

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


def ledger_path(run: Path, name: str) -> Path:
    """The file of an API's ledger in a run folder."""
    return run / "ledger" / f"{quote(name, safe='')}.sqlite"


def spending(run: str | Path) -> dict[str, Any]:
    """What a run has spent so far: {"queries": total, "apis": {name: {"queries": n, "in_doubt": m}}}."""
    run = Path(run)
    folder = run / "ledger"
    if not folder.is_dir() and not (run / "config.toml").is_file():
        raise ArtifactError(f"{run} is no run folder: it has neither ledger/ nor config.toml; name one of dfml")
    apis = {}
    for path in sorted(folder.glob("*.sqlite")):
        facts = read_only(path)
        apis[facts.name or unquote(path.stem)] = {"queries": facts.paid, "in_doubt": facts.in_doubt}
    return {"queries": sum(api["queries"] for api in apis.values()), "apis": apis}


def _checked(budget: int) -> int:
    if budget < 0:
        raise ConfigError(f"a budget is a number of queries, 0 or more, not {budget}")
    return budget
