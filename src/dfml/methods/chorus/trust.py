"""Whom to believe: an API whose answers can be foreseen from the image tells something about images."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

SHARES = (0.1, 0.25, 0.5, 0.75, 1.0)
"""of the student in what is foreseen; the rest is the API's mean answer"""
TOLD = 1e-4
"""nats below which an API's answers are all the same"""
ENOUGH = 8
"""answers that an API can be judged by: fewer do not even show how much they differ"""


class Foreseen(NamedTuple):
    """How much better than by its mean answer each of m APIs is foreseen; 1 is all, 0 is not at all."""

    gain: Tensor  # (m,)
    least: Tensor  # (m,): what the gain surely is, for all that the answers judged by may have been luck
    most: Tensor  # (m,): what it surely does not exceed


def softened(probs: Tensor, power: float) -> Tensor:
    """Answers p (..., k) -> p^power / sum: what an API thinks of the other classes counts more. Zeros stay zeros."""
    if power == 1:
        return probs
    soft = probs.clamp_min(0) ** power
    return soft / soft.sum(-1, keepdim=True).clamp_min(1e-9)


def foreseen(parts: Sequence[tuple[Tensor, Tensor, Tensor]], mean: Tensor, *, sure: float) -> Foreseen:
    """How much better than by an API's mean answer its answers are foreseen; `sure` is in standard errors.

    Each of `parts` has the answers (n, m, k) about images that were not learned from, the logarithms of what the
    student expects, and which API was asked about which image (n, m); `mean` (m, k) is over the images learned from.

        gain = 1 - KL(answer || expected) / KL(answer || mean answer)

    `expected` is the student hedged with the mean answer, by the best of `SHARES`: a student that is right but too sure
    of itself, as small ones are of 1,000 classes, does not count against the API. Answers that do not depend on the
    image have no gain (constant, uniform), or at most about none (random).
    """
    mean = mean.clamp_min(1e-9)
    asked = torch.cat([asked for _, _, asked in parts])
    told = torch.cat([(torch.xlogy(a, a) - a * mean.log()).sum(-1) for a, _, _ in parts])
    count = asked.sum(0)
    told = (told * asked).sum(0) / count.clamp_min(1)
    hedges = []
    for share in SHARES:
        better = torch.cat(
            [
                (a * ((share * student.exp() + (1 - share) * mean).clamp_min(1e-12).log() - mean.log())).sum(-1)
                for a, student, _ in parts
            ]
        )
        hedges.append(_surely(better / told.clamp_min(TOLD), asked, sure))
    gain, least, most = (torch.stack(found) for found in zip(*hedges, strict=True))
    best = gain.argmax(0, keepdim=True)
    judged = gain.gather(0, best).squeeze(0), least.amax(0), most.gather(0, best).squeeze(0)
    return Foreseen(*(bound.where((told > TOLD) | (count < ENOUGH), 0.0) for bound in judged))


def foreseen_directions(cosines: Tensor, asked: Tensor, *, sure: float) -> Foreseen:
    """The same where answers are met in direction, from the `cosines` (n, m) of what was expected with what was said.

    The gain is the mean cosine. Directions are measured from the API's mean one, so that constant and random answers
    have none.
    """
    return _surely(cosines, asked, sure)


def _surely(gains: Tensor, asked: Tensor, sure: float) -> Foreseen:
    """The mean over those of `gains` (n, m) that were `asked` for, and `sure` standard errors to both sides."""
    count = asked.sum(0)
    gain = (gains * asked).sum(0) / count.clamp_min(1)
    spread = ((gains - gain).square() * asked).sum(0) / (count - 1).clamp_min(1)
    doubt = (sure * (spread / count.clamp_min(1)).sqrt()).where(count >= ENOUGH, torch.inf)
    return Foreseen(gain, gain - doubt, gain + doubt)


def believed(judged: Foreseen, *, least: float, share: float) -> Tensor:
    """1 for every API that is listened to, 0 for the others: what a small student imitates easily is not worth more.

    Dropped is who is surely foreseen less than `least`, or than `share` of the median of those that surely are foreseen
    at all: what was paid for is not thrown away on a suspicion. Where none surely is, all count: there is nothing
    better to learn from.
    """
    heard = (judged.gain > least) & (judged.least > 0)
    if not bool(heard.any()):
        return torch.ones_like(judged.gain)
    bound = max(least, share * float(judged.gain[heard].median()))
    return (judged.most >= bound).to(judged.gain.dtype)
