"""Answers as features: pure functions of tensors."""

import torch
import torch.nn.functional as F
from torch import Tensor

RESOLUTION = 1000.0
"""probabilities below 1 / 1000 hardly count"""


def answer_features(answers: Tensor) -> Tensor:
    """Answers (n, k) -> directions (n, k): log(1 + 1000 p), less its own mean, of unit length (or zero)."""
    z = torch.log1p(RESOLUTION * answers)
    return F.normalize(z - z.mean(1, keepdim=True), dim=1)


def api_weight(answers: Tensor, labels: Tensor) -> float:
    """How much an API tells about the classes of a support set, from its answers (n, k) about them; 0 or more.

        w = H^2 (own - other) / (1 - own)

    H: entropy of the mean answer; own, other: mean cosine of two answers about one class, about two classes.
    """
    z = answer_features(answers)
    cosines, same = z @ z.T, labels[:, None] == labels
    own = cosines[same & ~torch.eye(len(labels), dtype=torch.bool)].mean()
    other, mean = cosines[~same].mean(), answers.mean(0)
    entropy = -(mean * mean.clamp_min(1e-12).log()).sum()
    return float(entropy.square() * ((own - other) / (1 - own).clamp_min(1e-3)).clamp_min(0))


def class_sums(directions: Tensor, labels: Tensor, way: int) -> Tensor:
    """The sum (way, d) of the directions (n, d) of each class, which points where their mean does."""
    return F.one_hot(labels, way).to(directions.dtype).T @ directions


def class_cosines(directions: Tensor, sums: Tensor) -> Tensor:
    """The cosine (n, way) of every direction with every class's."""
    return directions @ F.normalize(sums, dim=1).T
