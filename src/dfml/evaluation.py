"""Accuracy over many tasks, with its interval and the protocol that made it."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from dfml.episode import Episode


@dataclass(frozen=True)
class Accuracy:
    """Percentages over tasks."""

    mean: float
    ci95: float
    """half the width of the 95 % interval of the mean: 1.96 standard errors"""
    tasks: int

    def __str__(self) -> str:
        return f"{self.mean:.2f} ± {self.ci95:.2f}"


def summarise(fractions: Sequence[float]) -> Accuracy:
    """Mean and interval of per-task accuracies given as fractions."""
    n = len(fractions)
    mean = sum(fractions) / n
    variance = sum((value - mean) ** 2 for value in fractions) / (n - 1) if n > 1 else 0.0
    return Accuracy(100 * mean, 196 * math.sqrt(variance / n), n)


def evaluate(
    score: Callable[[Episode], float],
    episodes: Iterable[Episode],
    *,
    on_task: Callable[[int], Any] = lambda done: None,
) -> Accuracy:
    """`score` (the fraction right) over all `episodes`."""
    fractions = []
    for episode in episodes:
        fractions.append(score(episode))
        on_task(len(fractions))
    return summarise(fractions)
