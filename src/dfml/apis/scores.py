"""Whatever way an endpoint says what it sees: full probability vectors, columns in the order of the classes.

- Scores of 0..100 are divided by 100; raw outputs ("logits") go through a softmax.
- A label alone is a one-hot vector.
- Where only some classes are named (the top k, or those over a threshold), the mass that their scores miss to 1 is
  spread evenly over the others (`missing = "even"`); or it is none, and the scores are scaled up (`missing = "none"`).
- In a table, scores that were too small to be sent are zeros: those below `threshold`, or below half a `step` of an
  8-bit output, or below half of the last of `decimals` where more is missing than rounding explains. They count as not
  named, so the same rule completes them.
- Rounded scores sum to 1 only nearly: with `decimals` stated they stay as they are, else they are divided by their sum
  where that is within 2 % of 1, or within what rounding to `step` can do. Any other sum is no probability vector, and
  is refused.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dfml.apis.blackbox import ApiSpec, OutputKind, check_scores
from dfml.apis.degrade import leaders
from dfml.errors import BadAnswer, ConfigError, nearest, shown

Pairs = Sequence[tuple[str | int, float | None]]
"""classes by name or by column, each with its score, or with none where the API says no more than the name"""

Scores = NDArray[np.float64] | Sequence[Pairs]
"""what an answer says: a table (n, k), or for each image the classes that it names"""

ROUNDING = 0.02
EXACT = 5e-4
"""Sums within this of 1 are left alone, so that exact answers keep all their bits."""


@dataclass(frozen=True, kw_only=True)
class OutputConfig:
    """What an API's answers look like."""

    name: str | None = None
    """the output tensor or key, where the answer has several"""
    scores: str | None = None
    """json: where in the answer the scores stand, such as output.scores; * is each image, a number a place in a list"""
    labels: str | None = None
    """json: where the class names stand that go with the scores, or that stand alone"""
    kind: OutputKind = "probs"
    """probs: all scores; top-k: the largest few; label: nothing but the winner"""
    scale: Literal["1", "100", "logits"] = "1"
    """probabilities, percentages, or raw outputs that lack their softmax"""
    top_k: int | None = None
    """how many scores come back when kind is top-k; asked for, where the protocol can"""
    decimals: int | None = None
    """decimals of a score, as a probability, where it is rounded"""
    threshold: float | None = None
    """scores below this are not sent, so an answer may name few classes or none"""
    step: float | None = None
    """scores are multiples of this, as of 1/256 where they are 8-bit numbers: those below half of it arrive as 0"""
    missing: Literal["even", "none"] = "even"
    """what becomes of the mass of classes that are not named: spread evenly over them, or none"""
    background: str | None = None
    """a class that means "none of the others": it is dropped, and the others are divided by their sum"""
    classification: bool = False
    """inference_v2: ask for the top k through the classification extension"""

    def __post_init__(self) -> None:
        for name, least in (("top_k", 1), ("decimals", 0), ("threshold", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ConfigError(f"output.{name} must be {least} or more, not {value}")
        if self.step is not None and not 0 < self.step <= 1:
            raise ConfigError(f"output.step is above 0 and at most 1, such as 0.00390625 for 8 bits, not {self.step}")
        if self.kind == "top-k" and self.top_k is None:
            raise ConfigError("output.kind = 'top-k' also needs output.top_k, the number of scores that come back")

    @property
    def is_plain(self) -> bool:
        """Whether all probabilities come, as they are: nothing is scaled, rounded, left out or completed."""
        return self.scale == "1" and self.kind == "probs" and not self.unit and not self.threshold

    @property
    def unit(self) -> float:
        """What scores are multiples of, as far as is known; 0 where they are not rounded."""
        return self.step or (0.0 if self.decimals is None else 10.0**-self.decimals)


def label_entropy(answers: Tensor) -> float:
    """How much the winning labels of answers (n, k) vary, in bits: 0 where all are the same, at most log2 of k or n.

    An API that calls every picture by one name says next to nothing about pictures.
    """
    shares = torch.bincount(answers.argmax(1), minlength=answers.shape[1]).double() / max(1, len(answers))
    return float(-(shares * shares.clamp_min(1e-12).log2()).sum().clamp_max(0))


def completed(spec: ApiSpec, output: OutputConfig | None, scores: Tensor) -> Tensor:
    """The scores (n, k) that a local API computed as the probabilities they mean; as they are without `output`."""
    if output is None or scores.dim() != 2:
        return scores  # `check_answer` has the last word
    if output == OutputConfig(scale="logits"):
        return scores.softmax(1)
    return probabilities(spec, output, scores.detach().cpu().double().numpy(), len(scores))


def probabilities(spec: ApiSpec, output: OutputConfig, scores: Scores, count: int) -> Tensor:
    """Probabilities (n, k) for the answer to `count` images; `BadAnswer` where it does not fit the API's classes."""
    if len(scores) != count:
        raise BadAnswer(f"{spec.name}: {count} images were sent, but {len(scores)} answers came back")
    # Most answers are exact as they stand, and nothing else need be looked at.
    if isinstance(scores, np.ndarray):
        table = _fitting(spec, scores)
        if output.is_plain and _are_exact(table):
            return torch.from_numpy(table.astype(np.float32))
        named = np.ones_like(table, bool)
    else:
        rows, seen = _by_class(spec, output, scores)
        if output.is_plain and all(map(all, seen)) and all(map(_is_exact, rows)):
            return torch.from_numpy(np.array(rows, np.float32).reshape(count, spec.way))
        table = np.array(rows, np.float64).reshape(count, spec.way)
        named = np.array(seen, bool).reshape(count, spec.way)
    if not np.isfinite(table).all():
        raise BadAnswer(f"{spec.name}: expected scores, got {table[~np.isfinite(table)][0]} among them")
    if output.scale == "logits":
        if not named.all():
            raise BadAnswer(f"{spec.name}: raw outputs of some classes only are no probabilities; set output.scale")
        shifted = np.exp(table - table.max(1, keepdims=True))
        table = shifted / shifted.sum(1, keepdims=True)
    elif output.scale == "100":
        table = table / 100
    if output.kind == "label":
        top = leaders(torch.from_numpy(np.where(named, table, -np.inf)), 1).numpy()
        table, named = np.zeros_like(table), np.ones_like(named)
        np.put_along_axis(table, top, 1.0, axis=1)
    if table.min(initial=0) < 0:
        raise BadAnswer(f"{spec.name}: expected scores of 0 or more, got {table.min():.4g}; is output.scale right?")
    if isinstance(scores, np.ndarray) and output.kind != "label":
        table, named = _sent(spec, output, table)
    complete = _completed(spec, output, table, named).astype(np.float32)
    check_scores(spec, complete, count)
    return torch.from_numpy(complete)


def _are_exact(table: NDArray[np.float64]) -> bool:
    """Whether all rows are probabilities as they stand; NaN and infinity fail."""
    return bool(table.min(initial=0) >= 0 and np.abs(table.sum(1) - 1).max(initial=0) <= EXACT)


def _is_exact(row: list[float]) -> bool:
    """The same of one row, as a list: of few numbers, arrays take longer."""
    return min(row) >= 0 and abs(sum(row) - 1) <= EXACT


def _sent(
    spec: ApiSpec, output: OutputConfig, table: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """A table without the scores that count as not sent, and which did: the largest few, those that are not too small.

    Where all large scores are there, the small ones can be missing only so much.
    """
    named = np.ones(table.shape, bool)
    if output.kind == "top-k" and output.top_k is not None and output.top_k < spec.way:
        named[:] = False
        np.put_along_axis(named, leaders(torch.from_numpy(table), output.top_k).numpy(), True, axis=1)
    cut = max(output.threshold or 0.0, output.unit / 2)
    if cut == 0:
        return np.where(named, table, 0.0), named
    large = table >= cut * (1 - 1e-6)  # float32 has not every bit of a threshold
    if output.threshold is None and output.step is None:  # only decimals: rounding explains a little of what is missing
        rounding = ROUNDING + large.sum(1, keepdims=True) * output.unit / 2
        large |= table.sum(1, keepdims=True) >= 1 - rounding
    if output.kind == "probs":
        most = ROUNDING + (~large).sum(1) * cut + large.sum(1) * output.unit / 2
        sums = np.where(large, table, 0.0).sum(1)
        if (1 - sums > most).any():
            total, least = sums[1 - sums > most][0], (1 - most)[1 - sums > most][0]
            raise BadAnswer(
                f"{spec.name}: expected scores that sum to {least:.3g} or more, because only those below {cut:.3g} are "
                f"missing, got a sum of {total:.4g}; is output.scale right?"
            )
    named &= large
    return np.where(named, table, 0.0), named


def _fitting(spec: ApiSpec, table: NDArray[np.float64]) -> NDArray[np.float64]:
    if table.ndim != 2 or table.shape[1] != spec.way:
        got = f"{table.shape[1]} scores an image" if table.ndim == 2 else f"a table of shape {table.shape}"
        raise BadAnswer(
            f"{spec.name}: its class list has {spec.way} classes ({', '.join(spec.classes[:3])}, …), but it answers "
            f"{got}; correct classes or output.name"
        )
    return table


def _by_class(spec: ApiSpec, output: OutputConfig, rows: Sequence[Pairs]) -> tuple[list[list[float]], list[list[bool]]]:
    """The scores in the order of the classes (n, k), and which of them the answer named."""
    columns, way, whole = spec.columns, spec.way, 100.0 if output.scale == "100" else 1.0
    table = [[0.0] * way for _ in rows]  # lists: single numbers of an array are slow to reach
    named = [[False] * way for _ in rows]
    for scores, seen, pairs in zip(table, named, rows, strict=True):
        if not pairs and output.threshold is None:
            raise BadAnswer(f"{spec.name}: an answer names no class; where that can be, state output.threshold")
        for label, score in pairs:
            column = columns.get(label) if isinstance(label, str) else label
            if column is None or not 0 <= column < way:
                known = nearest(shown(label, 50), spec.classes) if way <= 20 else f"it has {way} classes"
                raise BadAnswer(f"{spec.name}: it answers {shown(label, 50)!r}, which is not in its classes; {known}")
            copy = 2  # a list of labels may have a word twice; its second mention means the second class of that name
            while seen[column] and isinstance(label, str) and f"{label} ({copy})" in columns:
                column, copy = columns[f"{label} ({copy})"], copy + 1
            if seen[column]:
                raise BadAnswer(f"{spec.name}: an answer names the class {spec.classes[column]!r} twice")
            if score is None and len(pairs) > 1:
                raise BadAnswer(f"{spec.name}: an answer names several classes without a score")
            seen[column], scores[column] = True, whole if score is None else score
    return table, named


def _completed(
    spec: ApiSpec, output: OutputConfig, table: NDArray[np.float64], named: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """What is missing to 1 is given to the classes without a score, by the rule."""
    sums = table.sum(1, keepdims=True)
    others = (~named).sum(1, keepdims=True)
    partial = others[:, 0] > 0
    # Each score that was rounded is off by half a unit at most.
    slack = np.maximum(ROUNDING, named.sum(1, keepdims=True) * output.unit / 2)
    if (sums - 1 > slack).any():
        raise _wrong_sum(spec, output, sums[sums - 1 > slack][0])
    if not partial.any():
        pass
    elif output.missing == "even":
        share = np.maximum(0, 1 - sums) / np.maximum(others, 1)
        table = np.where(named, table, share)
    elif (sums[partial] <= 0).any():
        raise BadAnswer(f"{spec.name}: an answer without any mass cannot be scaled up; set output.missing = 'even'")
    else:
        table = np.where(partial[:, None], table / np.where(sums > 0, sums, 1), table)
    if output.decimals is not None:
        return table  # `check_answer` knows how far rounding can move a sum
    sums = table.sum(1, keepdims=True)
    far = np.abs(sums - 1)
    if far.max(initial=0) <= EXACT:
        return table
    if (far > slack).any():
        raise _wrong_sum(spec, output, sums[far > slack][0])
    return np.where(far > EXACT, table / sums, table)


def _wrong_sum(spec: ApiSpec, output: OutputConfig, total: float) -> BadAnswer:
    hint = "is output.scale right?" if output.scale == "1" else "output.scale does not fit"
    return BadAnswer(f"{spec.name}: expected scores that sum to 1, got a sum of {total:.4g}; {hint}")
