"""What a fitted classifier knows and tells of itself; nobody is asked for it."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dfml.adaptation.asking import SupportAnswers
from dfml.adaptation.estimator import Estimator
from dfml.adaptation.guess import Guess, comparing_guess, guess_of
from dfml.adaptation.inputs import as_tensor
from dfml.adaptation.saved import export_student
from dfml.adaptation.student import FrozenClassifier
from dfml.apis.ledger import Metered
from dfml.errors import ConfigError
from dfml.initialisation import caveat
from dfml.nets import NetSpec
from dfml.notebook import facts_table


class Fitted(Estimator):
    """A student, what APIs said about the support set, or both."""

    classes_: np.ndarray[Any, Any]
    failures_: dict[str, str]
    """APIs that could not be asked about the support set, and why"""
    _student: FrozenClassifier | None
    _provenance: dict[str, Any] | None
    """how the student was taught; None where there is none, or nobody knows"""
    _support: SupportAnswers | None
    _support_set: tuple[Tensor, Tensor] | None
    """uint8 images at the student's size and labels, where there is a student and APIs"""
    _metered: list[Metered] | None
    """the APIs behind their ledgers; None until one is asked"""
    _shape: tuple[int, int, int]

    @property
    def api_weights_(self) -> dict[str, float]:
        """How much each API tells about the classes; 0 where it tells nothing or could not be asked."""
        self._check_fitted()
        if self._support is None:
            return {}
        return dict(zip(self._support.names, self._support.weights.tolist(), strict=True))

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(channels, height, width) at which images lose nothing that the student or an API could see."""
        self._check_fitted()
        return self._shape

    @property
    def input_spec(self) -> NetSpec:
        """The size and channels that the student's images are brought to."""
        return self._offline().spec

    def leave_one_out(self) -> np.ndarray[Any, Any]:
        """Probabilities (n, way) for the n images of `fit`, each compared with class means that it is no part of.

        BatchNorm statistics stay those of all n. An image that is alone in its class leaves nothing to compare with.
        """
        return self._offline().leave_one_out().cpu().numpy()

    def nearest(self, images: Any, count: int = 2) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """The `count` images of `fit` that look most alike to the student: their places (m, count) and cosines."""
        places, cosines = self._offline().nearest(as_tensor(images), count)
        return places.cpu().numpy(), cosines.cpu().numpy()

    def export_onnx(self, path: str | Path) -> None:
        """The student alone: one float32 input (n, c, h, w) in [0, 1], one output of probabilities."""
        export_student(self._offline(), self.classes_.tolist(), path)

    def _repr_html_(self) -> str:
        """How it looks in a notebook."""
        if not self.__sklearn_is_fitted__():
            return facts_table("FewShotClassifier", {"state": "not fitted yet"})
        names, ask = [str(name) for name in self.classes_], self.get_params()["ask"]
        facts = {
            "classes": f"{len(names):,}: {', '.join(names)}",
            "network": "none: its APIs are all there is" if self._student is None else self._student.spec.arch,
            "taught": caveat(self._provenance or {}) or ("data-free" if self._provenance else "not on file"),
            "asks": f"{len(self.api_weights_):,} APIs, ask={ask!r}" if self.api_weights_ else "nobody",
        }
        return facts_table("FewShotClassifier", facts)

    def _guess(self, x: Tensor) -> Guess:
        """What the student says of images as they were given; without one, that it has no idea."""
        if self._student is None:
            return Guess(torch.zeros(len(x), len(self.classes_)))
        if self._support is None:
            return guess_of(self._student, x)
        return comparing_guess(self._student, x, None if self._support_set is None else self._support_set[1])

    def _offline(self) -> FrozenClassifier:
        self._check_fitted()
        if self._student is None:
            raise ConfigError("this classifier is its APIs alone and has no network of its own; adapt a run as well")
        return self._student
