"""Which classes of which APIs are one: those of one name."""

import re
from collections.abc import Container, Hashable, Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from dfml.methods.chorus.asking import AnswerTable

NUMBERED = re.compile(r"(class|label|category)?[\s_-]*\d+", re.IGNORECASE)
"""names that only number an API's classes: with another API, the same number is something else"""
LEAST_AGREEMENT = 0.1
"""correlation below which an API means other things by its names"""
ROUNDS = 3
"""in which strangers are found: who seemed strange among strangers may not be so without them"""


@dataclass(frozen=True)
class Vocabulary:
    """The classes of m APIs of at most k, each class once, however many APIs know it."""

    rows: Tensor  # long (m, k): which class stands in each column of an API; its first one where a column only fills up
    ways: tuple[int, ...]
    size: int

    @classmethod
    def by_name(cls, apis: Sequence[Sequence[str]], *, apart: Container[int] = ()) -> Self:
        """Of the class names of each API: those of one name are one class.

        Unless the name only numbers it, or the API is one of those that keep their classes `apart`.
        """
        return cls._numbered([
            [
                (number, name) if number in apart or NUMBERED.fullmatch(name.strip()) else name.strip()
                for name in names
            ]
            for number, names in enumerate(apis)
        ])  # fmt: skip

    @classmethod
    def apart(cls, ways: Sequence[int]) -> Self:
        """No class of an API is one of another."""
        return cls._numbered([[(number, column) for column in range(way)] for number, way in enumerate(ways)])

    @classmethod
    def _numbered(cls, apis: Sequence[Sequence[Hashable]]) -> Self:
        places = {name: place for place, name in enumerate(dict.fromkeys(name for names in apis for name in names))}
        ways = tuple(len(names) for names in apis)
        filled = ([*names, *[names[0]] * (max(ways) - len(names))] for names in apis)
        return cls(torch.tensor([[places[name] for name in names] for names in filled]), ways, len(places))

    def circles(self, apis: Sequence[int]) -> list[list[int]]:
        """`apis` in groups: in one are those that share a class, or share classes with others that do, and so on.

        Within a circle all classes can be weighed against each other; between two circles nothing says how.
        """
        parent = list(range(self.size))

        def root(known: int) -> int:
            while parent[known] != known:
                parent[known] = parent[parent[known]]  # a shorter way for who comes after
                known = parent[known]
            return known

        for api in apis:
            first, *others = self.rows[api, : self.ways[api]].tolist()
            for other in others:
                parent[root(other)] = root(first)
        circles: dict[int, list[int]] = {}
        for api in apis:
            circles.setdefault(root(int(self.rows[api, 0])), []).append(api)
        return list(circles.values())


def agreeing(names: Sequence[Sequence[str]], answers: AnswerTable) -> tuple[Vocabulary, list[int]]:
    """The vocabulary of APIs that mean the same by the same names, and those that do not, whose classes stay apart.

    An API means what others mean if the probabilities it gives to the classes it shares with them rise and fall with
    theirs from picture to picture (`agreement`). Of a hundred Conv4 APIs none is below 0.42; names given to the wrong
    classes come to 0. Who shares nothing, or no picture, is taken at its word.
    """
    strangers: list[int] = []
    for _ in range(ROUNDS):
        rates = agreement(Vocabulary.by_name(names), answers, strangers).tolist()
        strangers = [api for api, rate in enumerate(rates) if rate < LEAST_AGREEMENT]
    return Vocabulary.by_name(names, apart=strangers), strangers


def agreement(vocabulary: Vocabulary, answers: AnswerTable, strangers: Sequence[int] = ()) -> Tensor:
    """How far each API (m,) means what others, but for `strangers`, mean by the classes it shares with them.

    The correlation, over pictures, of the probability it gives a class with the mean of those that the others give it,
    each measured from its own mean by its own spread; the mean over the classes it shares. 1 where there are none.
    """
    device = answers.probs.device
    rows, heard = vocabulary.rows.to(device).flatten(), torch.ones(len(vocabulary.ways), 1, device=device)
    heard[list(strangers)] = 0
    present = torch.arange(answers.probs.shape[2], device=device) < answers.ways[:, None]
    count = answers.asked.sum(0).clamp_min(1).unsqueeze(1)
    mean = answers.probs.sum(0) / count  # of what was not asked there are zeros
    spread = ((answers.probs.square().sum(0) / count - mean.square()).clamp_min(0)).sqrt().clamp_min(1e-6)
    products = torch.zeros(3, *present.shape, device=device)
    for some in torch.arange(len(answers.images)).split(128):
        part = answers.rows(some)
        asked = part.asked.unsqueeze(2) & present
        told = (part.probs - mean) / spread * asked
        sums, numbers = (
            torch.zeros(len(some), vocabulary.size, device=device).index_add_(1, rows, (x * heard).flatten(1))
            for x in (told, asked.float())
        )
        others = numbers[:, rows].view_as(told) - asked * heard
        mine = asked & (others > 0)
        theirs = (sums[:, rows].view_as(told) - told * heard) / others.clamp_min(1) * mine
        told = told * mine
        products += torch.stack([(told * theirs).sum(0), told.square().sum(0), theirs.square().sum(0)])
    varies = (products[1] > 0) & (products[2] > 0)
    correlation = products[0] / (products[1] * products[2]).sqrt().clamp_min(1e-9)
    shared = varies.sum(1)
    return torch.where(shared > 0, (correlation * varies).sum(1) / shared.clamp_min(1), 1.0)
