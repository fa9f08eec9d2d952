"""How far what a student expects lies from what APIs said: by probabilities, or by direction."""

from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from dfml.methods.chorus.asking import AnswerTable
from dfml.methods.chorus.trust import Foreseen, foreseen, foreseen_directions, softened
from dfml.nets.answer_directions import answer_directions


class Misfit(Protocol):
    """A way to compare, for all APIs alike."""

    directions: bool

    def __call__(self, logits: Tensor, said: AnswerTable, apis: Tensor) -> Tensor:
        """One number (n, m) for each image and each of `apis`, from logits (n, m, k) and what these APIs said."""
        ...

    def judged(
        self, logits: Sequence[Tensor], said: Sequence[AnswerTable], learned: Sequence[AnswerTable], *, sure: float
    ) -> Foreseen:
        """How much better than by its mean answer every API is foreseen, and within which bounds that is `sure`.

        `logits` and what was `said` are about images that were not learned from, `learned` about those that were.
        """
        ...


class Probabilities:
    """KL(answer || expected), answers p softened to p^power."""

    directions = False

    def __init__(self, power: float) -> None:
        self.power = power

    def __call__(self, logits: Tensor, said: AnswerTable, apis: Tensor) -> Tensor:
        return F.kl_div(logits.log_softmax(-1), self._told(said), reduction="none").sum(-1)

    def judged(
        self, logits: Sequence[Tensor], said: Sequence[AnswerTable], learned: Sequence[AnswerTable], *, sure: float
    ) -> Foreseen:
        mean = _mean(learned, self._told)
        pairs = zip(logits, said, strict=True)
        told = [(self._told(table), one.log_softmax(-1), table.asked) for one, table in pairs]
        return foreseen(told, mean, sure=sure)

    def _told(self, table: AnswerTable) -> Tensor:
        return softened(table.probs, self.power)


class Directions:
    """1 - cosine(d(answer), d(expected)): d is an answer's direction, less the mean direction of its API's answers.

    Of a thousand classes, a few that win say little of an image, above all of one that shows none of them; what it is
    a little like says more. `present` (m, k) tells which columns are classes.
    """

    directions = True

    def __init__(self, answers: Sequence[AnswerTable], present: Tensor) -> None:
        self.present = present
        self.middle = _mean(answers, lambda table: answer_directions(table.probs, present))

    def __call__(self, logits: Tensor, said: AnswerTable, apis: Tensor) -> Tensor:
        present, middle = self.present[apis], self.middle[apis]
        expected = answer_directions(logits.softmax(-1), present) - middle
        # An API that always says the same has no direction from its mean: with this bound all its cosines are 0.
        return 1 - F.cosine_similarity(expected, answer_directions(said.probs, present) - middle, dim=-1, eps=1e-3)

    def judged(
        self, logits: Sequence[Tensor], said: Sequence[AnswerTable], learned: Sequence[AnswerTable], *, sure: float
    ) -> Foreseen:
        everyone = torch.arange(len(self.present), device=self.present.device)
        cosines = [1 - self(one, table, everyone) for one, table in zip(logits, said, strict=True)]
        return foreseen_directions(torch.cat(cosines), torch.cat([table.asked for table in said]), sure=sure)


def _mean(tables: Sequence[AnswerTable], of: Callable[[AnswerTable], Tensor]) -> Tensor:
    """The mean (m, k) of what `of` makes of the answers, over the images that each API was asked about."""
    total = reduce(add, ((of(table) * table.asked.unsqueeze(-1)).sum(0) for table in tables))
    asked = reduce(add, (table.asked.sum(0) for table in tables))
    return total / asked.clamp_min(1).unsqueeze(-1)
