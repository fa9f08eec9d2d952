"""Any Python callable behind the seam: a scikit-learn forest, a client library, a few lines of NumPy."""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from dfml.apis.blackbox import ApiSpec, OutputKind, ask
from dfml.apis.scores import OutputConfig, Pairs, completed, probabilities
from dfml.errors import ApiError, BadAnswer, ConfigError, DfmlError


class FunctionApi:
    """`function` maps float32 arrays (n, c, h, w) in [0, 1] to class probabilities (n, k):

    FunctionApi(lambda x: forest.predict_proba(x.reshape(len(x), -1)), spec)
    """

    answers_are_checked: Literal[True] = True

    def __init__(
        self,
        function: Callable[[np.ndarray], Any],
        spec: ApiSpec,
        *,
        arrange: Callable[[np.ndarray], np.ndarray] | None = None,
        output: OutputConfig | None = None,
    ) -> None:
        """`arrange` turns (n, c, h, w) in [0, 1] into what the function takes; `output` says what it answers, if not
        probabilities. Where that is a label or the top k, it may also give, for each image, the name or number of a
        class, or a list of pairs (class, score)."""
        self.function, self.spec, self.arrange, self.output = function, spec, arrange, output

    def __call__(self, images: Tensor) -> Tensor:
        """Class probabilities (n, k) for images (n, c, h, w) in [0, 1]."""
        return ask(self.spec, images, self._respond)

    def _respond(self, images: Tensor) -> Tensor:
        pixels = images.cpu().numpy().copy()  # a copy, so that a function that works in place spoils nothing of ours
        if self.arrange is not None:
            pixels = self.arrange(pixels)
        try:
            answer = self.function(pixels)
        except DfmlError:
            raise
        except Exception as error:
            raise ApiError(f"{self.spec.name}: its function failed with {type(error).__name__}: {error}") from error
        try:
            if self.output is not None and (pairs := _pairs(answer, self.output.kind)) is not None:
                return probabilities(self.spec, self.output, pairs, len(images))
            return completed(self.spec, self.output, torch.from_numpy(np.array(answer, dtype=np.float64)))
        except (TypeError, ValueError) as error:
            raise BadAnswer(
                f"{self.spec.name}: expected {len(images)} answers of {self.spec.way} classes, "
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
