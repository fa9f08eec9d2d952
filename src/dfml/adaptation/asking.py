"""APIs that are asked about a task's own images: first about the support set, then where a prediction is in doubt."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from dfml.adaptation.answer_features import (
    api_weight,
    class_cosines,
    class_sums,
    fused_logits,
    worth_asking,
)
from dfml.adaptation.guess import Guess
from dfml.adaptation.inputs import Pictures
from dfml.apis.blackbox import ApiSpec
from dfml.apis.ledger import Metered
from dfml.errors import ApiError
from dfml.nets.answer_directions import answer_directions

ROUNDS = 5
"""queries about one batch are spread over so many rounds, each chosen after learning from the answers before"""
CALL_BYTES = 64 << 20
"""of float32 images in one call to an API"""


@dataclass(frozen=True)
class Asking:
    """How much may be asked about one batch of images."""

    queries: int | None = None
    """so many queries are sent, to where they are worth most; None: as many as pass `least_worth`"""
    least_worth: float = 0.0
    """a query is sent only if it is worth more; see `worth_asking`"""
    learn: bool = True
    """answers about some images of a batch also help to judge its others"""


@dataclass
class Outcome:
    """What was said of n images, and what that took."""

    probabilities: Tensor  # (n, W)
    asked: Tensor  # bool (n, m): which API answered about which image
    queries: int = 0
    """images that were sent; answers on file cost nothing"""
    failures: dict[str, str] = field(default_factory=dict)
    """APIs that could not be asked, and why"""
    answers: dict[str, tuple[Tensor, Tensor]] = field(default_factory=dict)
    """by API: the rows (j,) it answered about, and its answers (j, K)"""


@dataclass(frozen=True)
class SupportAnswers:
    """What m APIs said about a support set, and so how much each tells about its classes."""

    names: tuple[str, ...]
    weights: Tensor  # (m,); 0 for an API that could not be asked, or tells nothing
    sums: tuple[Tensor, ...]  # (W, K) each: of the directions of its answers
    shots: float

    @classmethod
    def ask(
        cls, apis: Sequence[Metered], pictures: Pictures, labels: Tensor, way: int
    ) -> tuple["SupportAnswers", dict[str, str]]:
        """Ask every API about the support set; also, why some could not be asked.

        `labels` (n,) are those of the n pictures. A class with a single image is asked about a second time, mirrored:
        how alike the two answers are tells how much an API can be relied on.
        """
        counts = torch.bincount(labels, minlength=way)
        single = (counts[labels] == 1).nonzero().squeeze(1)
        views = torch.cat([labels, labels[single]])
        weights, sums, failures = torch.zeros(len(apis)), list[Tensor](), dict[str, str]()
        for place, api in enumerate(apis):
            try:
                answers = [_ask(api, pictures, torch.arange(len(labels)))]
                if len(single):
                    answers.append(_ask(api, lambda rows: pictures(rows).flip(-1), single))
            except ApiError as error:
                failures[api.spec.name] = str(error)
                sums.append(torch.zeros(way, api.spec.way))
                continue
            probs = torch.cat(answers)
            weights[place] = api_weight(probs, views, mirrored=len(single) == len(labels))
            # Two views of one image count as one shot.
            sums.append(class_sums(answer_directions(probs), views, way) * (len(labels) / len(views)))
        names = tuple(api.spec.name for api in apis)
        return cls(names, weights, tuple(sums), len(labels) / way), failures


def queries_to_fit(labels: Sequence[Any], apis: int) -> int:
    """What `SupportAnswers.ask` sends at most for images of these labels."""
    single = sum(count == 1 for count in Counter(labels).values())
    return (len(labels) + single) * apis


def answer(
    apis: Sequence[Metered], support: SupportAnswers, pictures: Pictures, guess: Guess, asking: Asking
) -> Outcome:
    """Ask `apis` where it is worth most, and say what their answers and the student's guess come to."""
    return _Batch(apis, support, pictures, guess, asking).run()


class _Batch:
    """One batch of images, while APIs are asked about it."""

    def __init__(
        self, apis: Sequence[Metered], support: SupportAnswers, pictures: Pictures, guess: Guess, asking: Asking
    ) -> None:
        self.apis, self.support, self.pictures, self.asking = apis, support, pictures, asking
        self.alone, self.guess = guess, guess.in_company(support.shots) if asking.learn else guess
        count, self.way = guess.logits.shape
        self.asked = torch.zeros(count, len(apis), dtype=torch.bool)
        self.directions = [torch.zeros(count, sums.shape[1]) for sums in support.sums]
        self.weights = support.weights.clone()  # of the APIs that can still be asked
        self.failures: dict[str, str] = {}
        self.answers: dict[str, list[tuple[Tensor, Tensor]]] = {}
        self.queries = 0

    def run(self) -> Outcome:
        for planned in self._rounds():
            left = planned
            while left > 0:
                worth, api = worth_asking(self._logits().softmax(1), self.asked, self.weights)
                worthy = int((worth > self.asking.least_worth).sum())
                rows = worth.topk(min(left, worthy)).indices
                if len(rows) == 0:
                    return self._outcome()
                before = int(self.asked.sum())
                for column in api[rows].unique().tolist():
                    self._ask(column, rows[api[rows] == column].sort().values)
                left -= int(self.asked.sum()) - before  # where none answered, an API has failed and another is next
        return self._outcome()

    def _rounds(self) -> list[int]:
        """How many queries each round may send."""
        total = self.asking.queries
        if total is None:
            return [self.asked.numel()]
        rounds = ROUNDS if self.asking.learn else 1
        return [total // rounds + (number < total % rounds) for number in range(rounds)]

    def _ask(self, column: int, rows: Tensor) -> None:
        """Ask one API about some images; where it fails it is not asked again for this batch."""
        api = self.apis[column]
        before = api.ledger.queries
        try:
            affordable = _affordable(api, self.pictures, rows)
            if len(affordable) < len(rows):
                self._give_up(column, f"{api.spec.name}: its budget is spent")
                rows = affordable
            if len(rows):
                self._keep(column, rows, _ask(api, self.pictures, rows))
        except ApiError as error:
            self._give_up(column, str(error))
            known, answers = _known(api, self.pictures, rows)  # what was answered before it failed is paid for
            self._keep(column, known, answers)
        self.queries += api.ledger.queries - before

    def _give_up(self, column: int, reason: str) -> None:
        self.failures[self.apis[column].spec.name] = reason
        self.weights[column] = 0.0

    def _keep(self, column: int, rows: Tensor, answers: Tensor) -> None:
        self.answers.setdefault(self.apis[column].spec.name, []).append((rows, answers))
        self.asked[rows, column] = True
        self.directions[column][rows] = answer_directions(answers)

    def _logits(self) -> Tensor:
        """What is known so far, (n, W)."""
        support, guess = self.support, self.guess
        cosines = self._cosines(None)
        logits = fused_logits(guess.logits, cosines, self.asked, support.weights, support.shots)
        any_asked = self.asked.any(1)
        if not self.asking.learn or not bool(any_asked.any()):
            return logits
        for _ in range(2):
            cosines = self._cosines(logits.softmax(1))
            logits = fused_logits(guess.logits, cosines, self.asked, support.weights, support.shots)
        student = guess.after(logits.softmax(1), any_asked, support.shots)
        return fused_logits(student, cosines, self.asked, support.weights, support.shots)

    def _cosines(self, belief: Tensor | None) -> Tensor:
        cosines = torch.zeros(*self.asked.shape, self.way)
        for column in self.asked.any(0).nonzero().flatten().tolist():
            sums = self.support.sums[column]
            mine = None if belief is None else belief * self.asked[:, column, None]
            cosines[:, column] = class_cosines(self.directions[column], sums, mine)
        return cosines

    def _outcome(self) -> Outcome:
        told = {
            name: (torch.cat([rows for rows, _ in parts]), torch.cat([answers for _, answers in parts]))
            for name, parts in self.answers.items()
        }
        # Where no API says anything, every image is judged by itself.
        logits = self._logits() if bool(self.asked.any()) else self.alone.logits
        return Outcome(logits.softmax(1), self.asked, self.queries, self.failures, told)


def most_queries(apis: int, images: int, asking: Asking) -> int:
    """The most that a batch of so many images can send to so many APIs."""
    largest = images * apis
    return largest if asking.queries is None else min(largest, asking.queries)


def _ask(api: Metered, pictures: Pictures, rows: Tensor) -> Tensor:
    """Answers (m, K) about `rows` of the pictures, a bounded number of bytes at a time."""
    return torch.cat([api(pictures(part)) for part in rows.split(_together(api.spec))])


def _known(api: Metered, pictures: Pictures, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Those of `rows` that the ledger has answers for, and these answers."""
    found, answers = [rows[:0]], [torch.zeros(0, api.spec.way)]
    for part in rows.split(_together(api.spec)):
        places, told = api.known(pictures(part))
        found.append(part[places])
        answers.append(told)
    return torch.cat(found), torch.cat(answers)


def _affordable(api: Metered, pictures: Pictures, rows: Tensor) -> Tensor:
    """Those of `rows` that are on file, and as many of the others as the budget pays for."""
    remaining = api.ledger.remaining
    if remaining is None or remaining >= len(rows):
        return rows
    known, _ = _known(api, pictures, rows)
    on_file = torch.isin(rows, known)
    return torch.cat([rows[on_file], rows[~on_file][:remaining]]).sort().values


def _together(spec: ApiSpec) -> int:
    channels, height, width = spec.image
    return max(1, CALL_BYTES // (4 * channels * height * width))
