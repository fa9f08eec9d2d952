"""What the classifier says by itself: fitted again when the examples change, and to each picture once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dfml import FewShotClassifier
from dfml.play.album import View, pixels
from dfml.play.pictures import Picture

UNSURE = 0.6
"""a prediction that is less certain than this is called unsure; `ask="auto"` draws its line there, too"""

Probabilities = NDArray[np.floating[Any]]
Fit = Callable[[NDArray[np.uint8], Sequence[Any]], FewShotClassifier]
"""pixels (n, c, h, w) and labels (n,) -> a classifier for them"""


@dataclass(frozen=True)
class LeftOut:
    """How the examples fare, each judged by the others alone."""

    wrong: dict[int, int]
    """pictures that look like another class, and which"""
    of: int
    """pictures that are not alone in their class"""


@dataclass
class Judgement:
    """What is said of an album's pictures, column by column of `classes`; tables are replaced, never changed."""

    version: int
    classes: Sequence[int]
    said: dict[int, Probabilities] = field(default_factory=dict)
    left_out: LeftOut | None = None


class Judge:
    """Fits and predicts. One thread uses it at a time."""

    def __init__(self, fit: Fit, fixed: FewShotClassifier | None = None) -> None:
        self._fit, self._fixed = fit, fixed
        self._classifier = fixed
        self._last: Judgement | None = None

    def judge(self, view: View) -> Judgement | None:
        """What is said of all new pictures; None where there are not two classes to tell apart."""
        last = self._fitted(view)
        if last is None or self._classifier is None:
            return None
        fresh = [picture for picture in view.new if picture.number not in last.said]
        if fresh:
            told = self._classifier.predict_proba(pixels(fresh))
            last.said = last.said | dict(zip((picture.number for picture in fresh), told, strict=True))
        return last

    def nearest(self, view: View, picture: Picture, count: int = 2) -> list[tuple[int, float]]:
        """The examples that look most like `picture`, itself left out, and their cosines."""
        if self._fixed is not None or self._fitted(view) is None or self._classifier is None:
            return []
        rows, cosines = self._classifier.nearest(pixels([picture]), count + 1)
        found = [(view.examples[row].number, float(c)) for row, c in zip(rows[0], cosines[0], strict=True)]
        return [(number, cosine) for number, cosine in found if number != picture.number][:count]

    def _fitted(self, view: View) -> Judgement | None:
        if self._last is not None and self._last.version == view.version:
            return self._last
        if self._fixed is not None:
            self._last = Judgement(view.version, range(len(self._fixed.classes_)))
        elif len(view.classes) < 2:
            self._last = self._classifier = None
        else:
            self._classifier = self._fit(pixels(view.examples), view.labels)
            left_out = _left_out(self._classifier, view)
            self._last = Judgement(view.version, self._classifier.classes_.tolist(), left_out=left_out)
        return self._last


def _left_out(classifier: FewShotClassifier, view: View) -> LeftOut:
    labels = np.asarray(view.labels)
    counted = np.bincount(labels)[labels] > 1
    found = classifier.classes_[classifier.leave_one_out().argmax(1)]
    wrong = np.flatnonzero(counted & (found != labels)).tolist()
    return LeftOut({view.examples[row].number: int(found[row]) for row in wrong}, int(counted.sum()))
