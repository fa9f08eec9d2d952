"""Prior images, one query each: what many APIs say of the same pictures drawn from nothing."""

import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import repeat

import torch
from torch import Tensor

from dfml.apis.blackbox import ApiSpec, BlackBox
from dfml.errors import ApiError
from dfml.recovery.recovered import ClassKey, RecoveredSet

IMAGES_A_CALL = 250
"""After so many images the next API may go on; an API that fails loses at most this many."""


@dataclass(frozen=True)
class Answers:
    """What m APIs said of n images; APIs with fewer than k classes are padded with columns of zeros."""

    images: Tensor  # uint8 (n, c, h, w)
    probs: Tensor  # (n, m, k)
    asked: Tensor  # bool (n, m): which API has answered about which image
    ways: Tensor  # long (m,): how many classes each API has

    def rows(self, keep: Tensor) -> "Answers":
        """The answers about some of the images."""
        return replace(self, images=self.images[keep], probs=self.probs[keep], asked=self.asked[keep])

    def digest(self) -> str:
        """The same for the same answers to the same images, and for no others."""
        parts = (part.numpy().tobytes() for part in (self.images, self.probs, self.asked, self.ways))
        return hashlib.sha256(b"".join(parts)).hexdigest()


def surest(answers: Answers, column: int, spec: ApiSpec, *, count: int = 4, classes: int = 20) -> RecoveredSet:
    """For each of the first `classes` classes of API `column`, the `count` images it gives most to that class."""
    asked = answers.asked[:, column].nonzero().flatten()
    probs = answers.probs[asked, column, : spec.way]
    shown = min(classes, spec.way)
    best = probs[:, :shown].topk(min(count, len(probs)), dim=0).indices  # (count, shown)
    rows = best.T.flatten()
    return RecoveredSet(
        images=answers.images[asked[rows]].float() / 255,
        targets=torch.arange(shown).repeat_interleave(len(best)),
        probs=probs[rows],
        classes=tuple(ClassKey(spec.name, name) for name in spec.classes),
        queries=len(asked),
    )


def ask_all(
    apis: Sequence[BlackBox],
    images: Tensor,
    *,
    counts: Sequence[int],
    workers: int = 1,
    on_answers: Callable[[str, int], None] = lambda api, images: None,
    on_failure: Callable[[str, ApiError], None] = lambda api, error: None,
) -> Answers:
    """Ask API i about the first `counts[i]` of the uint8 `images` (n, c, h, w).

    All APIs get the same images: a picture that many teachers speak about teaches the student more than many pictures
    with one teacher each. An API that fails is given up after a second try, with what it has answered so far.
    """
    widest = max(api.spec.way for api in apis)
    probs = torch.zeros(len(images), len(apis), widest)
    asked = torch.zeros(len(images), len(apis), dtype=torch.bool)

    def ask(column: int, last_try: bool) -> bool:
        api = apis[column]
        try:
            for start in range(0, counts[column], IMAGES_A_CALL):
                rows = slice(start, min(start + IMAGES_A_CALL, counts[column]))
                if bool(asked[rows, column].all()):
                    continue
                probs[rows, column, : api.spec.way] = api(images[rows].float() / 255)
                asked[rows, column] = True
                on_answers(api.spec.name, rows.stop - rows.start)
        except ApiError as error:
            if last_try:
                on_failure(api.spec.name, error)
            return False
        return True

    with ThreadPoolExecutor(workers) as pool:
        done = list(pool.map(ask, range(len(apis)), repeat(False)))
        again = [column for column, finished in enumerate(done) if not finished]
        list(pool.map(ask, again, repeat(True)))
    ways = torch.tensor([api.spec.way for api in apis])
    return Answers(images, probs, asked, ways)
