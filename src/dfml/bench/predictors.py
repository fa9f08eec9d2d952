"""References that need the APIs at test time: they predict, but leave no initialisation behind."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from dfml.adaptation.heads import cosine_scores
from dfml.apis.blackbox import BlackBox
from dfml.episode import Episode
from dfml.errors import ConfigError
from dfml.evaluation.remembered import Once

Predictor = Callable[[Episode], Tensor]
"""an episode -> one score a query and class (q, k); the largest wins"""

BATCH = 32
"""images at once: every API keeps the memory that its largest call took, and there may be a hundred"""
FLOOR = 1e-4
"""probabilities are cut off below, so that the logarithm of a sure answer does not drown all others"""


def best_api(apis: Sequence[BlackBox]) -> Predictor:
    """The API with the highest reported accuracy answers itself; its k-th class is taken for the task's k-th.

    The task's classes are none of its own, so this is chance; the paper lists it, and so does the bench.
    """
    reported = [api for api in apis if api.spec.accuracy is not None]
    if not reported:
        raise ConfigError("best-api needs APIs that report an accuracy; none of these does")
    best = max(reported, key=lambda api: api.spec.accuracy or 0.0)
    return lambda episode: best(episode.query)


def api_features(apis: Sequence[BlackBox]) -> Predictor:
    """The answers of all APIs, end to end, as features: the class whose mean answer is nearest in direction.

    Features are log-probabilities, centred for each API: its logits up to a constant, cut off below.
    """

    def features(images: Tensor) -> Tensor:
        logs = [api(images).clamp_min(FLOOR).log() for api in apis]
        return torch.cat([log - log.mean(1, keepdim=True) for log in logs], dim=1)

    once = Once(features, at_once=BATCH)  # tasks share most of their images

    def predict(episode: Episode) -> Tensor:
        way = len(episode.classes)
        both = once(torch.cat([episode.support, episode.query]))
        return cosine_scores(both, episode.support_labels, way, centre=False)

    return predict
