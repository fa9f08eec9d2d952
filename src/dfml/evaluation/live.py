"""Accuracy against queries a prediction: a live classifier on many tasks, asking more and more."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from dfml.adaptation.classifier import FewShotClassifier
from dfml.adaptation.connecting import connect
from dfml.adaptation.heads import Head
from dfml.apis.blackbox import release
from dfml.apis.ledger import Metered
from dfml.evaluation.accuracy import summarise
from dfml.evaluation.metatest import TaskProtocol, describe, draw_tasks
from dfml.evaluation.remembered import Remembered
from dfml.initialisation import Initialisation

BINS = 10


@dataclass
class _Tally:
    """What one share has come to so far."""

    fractions: list[float] = field(default_factory=list)
    queries: float = 0.0
    images: int = 0
    said: list[torch.Tensor] = field(default_factory=list)
    right: list[torch.Tensor] = field(default_factory=list)


def accuracy_against_asking(
    init: Initialisation | None,
    protocol: TaskProtocol,
    apis: Sequence[Metered],
    shares: Sequence[float],
    *,
    head: Head | None = None,
    data: Path | None = None,
    learn: bool = True,
    on_task: Callable[[int], Any] = lambda done: None,
) -> list[dict[str, Any]]:
    """One result for each share: accuracy, and the queries that a prediction took on average.

    Every task is a user's: the APIs are asked about its support set, then about its queries. Answers that the ledgers
    have already count as queries here, because a user would pay for them.
    """
    tallies = {share: _Tally() for share in shares}
    for number, episode in enumerate(draw_tasks(protocol, range(protocol.tasks), data=data)):
        classifier = FewShotClassifier(
            init, head=head, support_weight=protocol.support_weight, apis=apis, learn_from_answers=learn
        ).fit(episode.support, episode.support_labels)
        for share, tally in tallies.items():
            outcome = classifier.set_params(ask=share).answer(episode.query)
            sure, label = outcome.probabilities.max(1)
            right = label == episode.query_labels
            tally.fractions.append(right.float().mean().item())
            tally.queries += int(outcome.asked.sum())
            tally.images += len(right)
            tally.said.append(sure)
            tally.right.append(right)
        on_task(number + 1)
    return [_result(protocol, share, tally, apis, head) for share, tally in tallies.items()]


def reliability(said: torch.Tensor, right: torch.Tensor) -> list[tuple[float, float, int]]:
    """Predictions (n,) in ten bins by their probability: its mean, the fraction that is right, and how many."""
    bins = (said * BINS).long().clamp_max(BINS - 1)
    groups = [bins == b for b in bins.unique().tolist()]
    return [(float(said[own].mean()), float(right[own].float().mean()), int(own.sum())) for own in groups]


def calibration_error(bins: Sequence[tuple[float, float, int]]) -> float:
    """The expected calibration error: the mean gap between word and truth, each bin weighing as many as it holds."""
    return sum(abs(said - right) * count for said, right, count in bins) / sum(count for _, _, count in bins)


@contextmanager
def asked_through(manifest: Path, folder: Path, *, budget: int | None) -> Iterator[list[Metered]]:
    """The APIs of a manifest behind ledgers in `folder`, closed in the end."""
    metered = connect(manifest, folder, budget=budget)
    with ExitStack() as opened:
        for api in metered:
            opened.callback(release, api)
            opened.enter_context(api.ledger)
        yield [Remembered(api.api, api.ledger) for api in metered]


def _result(
    protocol: TaskProtocol, share: float, tally: _Tally, apis: Sequence[Metered], head: Head | None
) -> dict[str, Any]:
    prices = [api.spec.terms.price for api in apis if api.spec.terms.price]
    asked, bins = tally.queries / tally.images, reliability(torch.cat(tally.said), torch.cat(tally.right))
    return {
        **describe(protocol, summarise(tally.fractions)),
        "head": head or "default",
        "ask_share": share,
        "queries_per_prediction": round(asked, 4),
        "calibration_error": round(calibration_error(bins), 4),
        "reliability": [[round(said, 4), round(right, 4), count] for said, right, count in bins],
        "apis": [api.spec.name for api in apis],
        **({"usd_per_1000_predictions": round(asked * sum(prices) / len(prices), 4)} if prices else {}),
    }
