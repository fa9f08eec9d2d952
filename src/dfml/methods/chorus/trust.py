"""Whom to believe: an API whose answers can be foreseen from the image tells something about images."""

from collections.abc import Sequence

import torch
from torch import Tensor

SHARES = (0.1, 0.25, 0.5, 0.75, 1.0)
"""of the student in what is foreseen; the rest is the API's mean answer"""
TOLD = 1e-4
"""nats below which an API's answers are all the same"""


def softened(probs: Tensor, power: float) -> Tensor:
    """Answers p (..., k) -> p^power / sum: what an API thinks of the other classes counts more. Zeros stay zeros."""
    if power == 1:
        return probs
    soft = probs.clamp_min(0) ** power
    return soft / soft.sum(-1, keepdim=True).clamp_min(1e-9)


def foreseen(parts: Sequence[tuple[Tensor, Tensor, Tensor]], mean: Tensor) -> tuple[Tensor, Tensor]:
    """How much better than by an API's mean answer its answers are foreseen: gain (m,), and how sure that is (m,).

    Each of `parts` has the answers (n, m, k) about images that were not learned from, the logarithms of what the
    student expects, and which API was asked about which image (n, m); `mean` (m, k) is over the images learned from.

        gain = 1 - KL(answer || expected) / KL(answer || mean answer)

    `expected` is the student hedged with the mean answer, by the best of `SHARES`: a student that is right but too sure
    of itself, as small ones are of 1,000 classes, does not count against the API. Sureness is in standard errors. Both
    are 0 for answers that do not depend on the image (constant, uniform), and at most about 0 for random ones.
    """
    mean = mean.clamp_min(1e-9)
    asked = torch.cat([asked for _, _, asked in parts])
    count = asked.sum(0).clamp_min(1)
    told = torch.cat([(torch.xlogy(a, a) - a * mean.log()).sum(-1) for a, _, _ in parts])
    told = (told * asked).sum(0) / count
    gain = sureness = torch.full_like(told, -torch.inf)
    for share in SHARES:
        better = torch.cat(
            [
                (a * ((share * student.exp() + (1 - share) * mean).clamp_min(1e-12).log() - mean.log())).sum(-1)
                for a, student, _ in parts
            ]
        )
        middle = (better * asked).sum(0) / count
        spread = ((better - middle).square() * asked).sum(0) / (count - 1).clamp_min(1)
        gain = torch.maximum(gain, middle / told.clamp_min(TOLD))
        sureness = torch.maximum(sureness, middle / ((spread / count).sqrt() + 1e-9))
    varies = told > TOLD
    return gain.where(varies, 0.0), sureness.where(varies, 0.0)


def foreseen_directions(cosines: Tensor, asked: Tensor) -> tuple[Tensor, Tensor]:
    """The same where answers are met in direction, from the `cosines` (n, m) of what was expected with what was said.

    The gain is the mean cosine. Directions are measured from the API's mean one, so that constant and random answers
    have none.
    """
    count = asked.sum(0).clamp_min(1)
    gain = (cosines * asked).sum(0) / count
    spread = ((cosines - gain).square() * asked).sum(0) / (count - 1).clamp_min(1)
    return gain, gain / ((spread / count).sqrt() + 1e-9)


def believed(gain: Tensor, sureness: Tensor, *, least: float, sure: float, share: float) -> Tensor:
    """1 for every API that is listened to, 0 for the others: what a small student imitates easily is not worth more.

    Kept is what is foreseen at all (more than `least`, and surely so) and at least `share` as well as the median of
    those. Where none passes, all count: there is nothing better to learn from.
    """
    heard = (gain > least) & (sureness > sure)
    if not bool(heard.any()):
        return torch.ones_like(gain)
    return (heard & (gain >= share * gain[heard].median())).to(gain.dtype)
