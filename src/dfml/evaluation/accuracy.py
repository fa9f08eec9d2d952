"""Accuracy over many tasks, with its interval and the protocol that made it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass


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
