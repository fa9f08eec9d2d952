"""Any Python callable behind the seam: a scikit-learn forest, a client library, a few lines of NumPy."""

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from dfml.apis.blackbox import ApiSpec, OutputKind, check_answer, gather, prepare
from dfml.apis.local.calling import MISTAKES, Background, answers
from dfml.apis.remote.limits import Limits
from dfml.apis.remote.patience import Attempt, Gate
from dfml.apis.scores import OutputConfig, Pairs, completed, probabilities
from dfml.apis.wire import AnswerPart, Unwatched, Wire
from dfml.errors import BadAnswer, ConfigError, DfmlError, Garbled, RateLimited, Unanswered, Unreachable


class FunctionApi:
    """`function` maps float32 arrays (n, c, h, w) in [0, 1] to class probabilities (n, k):

    FunctionApi(lambda x: forest.predict_proba(x.reshape(len(x), -1)), spec)

    It may be `async`, and it may yield: the answer to one image after the other, or tables (m, k) for the next m. It is
    called for `limits.images_per_request` images at a time, and what it answered is kept when a later call fails. With
    `limits`, calls that fail are repeated as requests to a server are; without, they are not.
    """

    answers_are_checked: Literal[True] = True
    _gate: Gate | None

    def __init__(
        self,
        function: Callable[[np.ndarray], Any],
        spec: ApiSpec,
        *,
        arrange: Callable[[np.ndarray], np.ndarray] | None = None,
        output: OutputConfig | None = None,
        limits: Limits | None = None,
    ) -> None:
        """`arrange` turns (n, c, h, w) in [0, 1] into what the function takes; `output` says what it answers, if not
        probabilities. Where that is a label or the top k, it may also give, for each image, the name or number of a
        class, or a list of pairs (class, score)."""
        self.function, self.spec, self.arrange, self.output = function, spec, arrange, output
        self.limits = limits
        self._prepare_calls()

    def __call__(self, images: Tensor) -> Tensor:
        """Class probabilities (n, k) for images (n, c, h, w) in [0, 1]."""
        return gather(self, images)

    def answers_in_parts(self, images: Tensor) -> Iterator[AnswerPart]:
        """Rows of `images` and their class probabilities, call by call, or as the function yields them."""
        yield from self.answers_on_wire(images, Unwatched())

    def answers_on_wire(self, images: Tensor, wire: Wire) -> Iterator[AnswerPart]:
        """The same, and `wire` knows of every call."""
        ready = prepare(self.spec, images).detach()
        step = (self.limits or Limits()).images_per_request
        for start in range(0, len(ready), step):
            yield from self._batch(ready, range(start, min(start + step, len(ready))), wire)

    def close(self) -> None:
        """End all waiting between calls."""
        if self._gate is not None and self.limits is not None:
            self._gate.stop()
            self._gate = Gate(self.limits)

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key not in ("_gate", "_background")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare_calls()

    def _prepare_calls(self) -> None:
        self._gate = None if self.limits is None else Gate(self.limits)
        self._background = Background()

    def _batch(self, ready: Tensor, rows: range, wire: Wire) -> Iterator[AnswerPart]:
        """One call, and further ones for what it left open, until the gate says that it is enough."""
        attempt = Attempt()
        while rows:
            if self._gate is not None:
                self._gate.enter(attempt)
            request = wire.sending(rows)
            try:
                for answer in self._answers(ready[rows.start : rows.stop]):
                    done = range(rows.start, rows.start + len(answer))
                    rows = range(done.stop, rows.stop)
                    yield done, answer
            except DfmlError as error:
                wire.ended(request, error)
                if self._gate is None or isinstance(error.__cause__, MISTAKES):
                    raise
                if not isinstance(error, Unreachable | RateLimited | Garbled):
                    raise
                self._gate.failed(error, attempt)
        if self._gate is not None:
            self._gate.answered()

    def _answers(self, images: Tensor) -> Iterator[Tensor]:
        """Class probabilities (m, k) of the first images, of the next, and so on to the last."""
        pixels = images.cpu().numpy().copy()  # a copy, so that a function that works in place spoils nothing of ours
        if self.arrange is not None:
            pixels = self.arrange(pixels)
        left = len(images)
        pieces = answers(self.function, pixels, self._background)
        while left:
            try:
                answer, count = next(pieces)
            except StopIteration:
                raise BadAnswer(
                    f"{self.spec.name}: its function yielded answers to {len(images) - left} of {len(images)} images"
                ) from None
            except DfmlError:
                raise
            except Exception as error:  # how much of the call was answered by then is not known
                raise Unanswered(
                    f"{self.spec.name}: its function failed with {type(error).__name__}: {error}"
                ) from error
            count = min(count, left)
            left -= count
            yield check_answer(self.spec, self._read(answer, count), count).to(images.device)

    def _read(self, answer: Any, count: int) -> Tensor:
        """What the function said of `count` images, as probabilities (count, k)."""
        try:
            if self.output is not None and (pairs := _pairs(answer, self.output.kind)) is not None:
                return probabilities(self.spec, self.output, pairs, count)
            return completed(self.spec, self.output, torch.from_numpy(np.array(answer, dtype=np.float64)))
        except (TypeError, ValueError) as error:
            raise BadAnswer(
                f"{self.spec.name}: expected {count} answers of {self.spec.way} classes, "
                f"got a {type(answer).__name__} that is no array of numbers"
            ) from error


def _pairs(answer: Any, kind: OutputKind) -> list[Pairs] | None:
    """Classes and scores where an answer consists of them; None where it is a table of scores."""
    rows = answer.tolist() if isinstance(answer, np.ndarray) else answer
    if kind == "label" and all(isinstance(row, str | int) for row in rows):
        return [[(row, None)] for row in rows]
    if kind == "top-k" and all(not isinstance(row, np.ndarray) and _named(row) for row in rows):
        return [[(label, float(score)) for label, score in row] for row in rows]
    return None


def _named(row: Any) -> bool:
    """Whether `row` is a list of pairs whose first is a class."""
    return isinstance(row, list | tuple) and all(
        isinstance(pair, list | tuple) and len(pair) == 2 and isinstance(pair[0], str | int) for pair in row
    )


def find_function(reference: str, folder: Path, where: str) -> Callable[[np.ndarray], Any]:
    """What `module:function` names, the module looked for in `folder` first. Importing it runs its code."""
    module, colon, name = reference.partition(":")
    if not colon or not module or not name:
        raise ConfigError(f"{where}: function = {reference!r} should be module:function, such as birds:predict")
    folder = folder.resolve()
    sys.path.insert(0, str(folder))
    try:
        found = getattr(_module(module, folder), name)
    except Exception as error:  # a module may raise anything while it is imported
        raise ConfigError(f"{where}: cannot import {reference} ({type(error).__name__}: {error})") from error
    finally:
        sys.path.remove(str(folder))
    if not callable(found):
        raise ConfigError(f"{where}: {reference} is a {type(found).__name__}, expected a function")
    return found  # type: ignore[no-any-return]


_modules: dict[tuple[Path, str], ModuleType] = {}
"""what was imported for which folder"""


def _module(name: str, folder: Path) -> ModuleType:
    """The module that `folder` means by that name, imported once, whatever modules other folders have."""
    key = (folder, name)
    if key not in _modules:
        others = {known for known, _ in _modules} - {folder}
        hidden = {name: module for name, module in list(sys.modules.items()) if _root(name) in others}
        for each in hidden:
            del sys.modules[each]
        try:
            _modules[key] = importlib.import_module(name)
        finally:
            sys.modules.update(hidden)
    return _modules[key]


def _root(name: str) -> Path | None:
    """The folder in which the module, or the package that it is in, was found."""
    file = getattr(sys.modules.get(name.partition(".")[0]), "__file__", None)
    if file is None:
        return None
    return Path(file).parent.parent if Path(file).name == "__init__.py" else Path(file).parent
