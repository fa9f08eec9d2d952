"""The field's transductive protocol: how an initialisation is tested on one task.

Every forward pass normalises by the statistics of its own batch, as the paper's meta-test does: what is predicted
for one query depends on the others. `dfml.adaptation.classifier` is the product without that dependence.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from dfml.adaptation.heads import Head, check_expected, cosine_scores, fine_tune, prototype_layer
from dfml.episode import Episode
from dfml.nets.expected_answers import ExpectedAnswers
from dfml.nets.functional import Net, Params, head_for


@dataclass(frozen=True, kw_only=True)
class HeadConfig:
    """The protocol of one meta-test. Defaults are the paper's fine-tuning."""

    head: Head = "finetune"
    lr: float = 0.01
    steps: int = 10
    centre: bool = False
    """subtract the mean of the task's features before comparing directions (prototype and answers only)"""


def task_accuracy(
    net: Net, params: Params, episode: Episode, config: HeadConfig, *, expected: ExpectedAnswers | None = None
) -> float:
    """The fraction of the episode's queries that are classified right after adapting to its support set."""
    scores = task_scores(net, params, episode, config, expected=expected)
    return (scores.argmax(1) == episode.query_labels).float().mean().item()


def task_scores(
    net: Net, params: Params, episode: Episode, config: HeadConfig, *, expected: ExpectedAnswers | None = None
) -> Tensor:
    """One score a query and class (q, way); the largest wins."""
    way = len(episode.classes)
    check_expected(config.head, expected)
    if config.head in ("prototype", "answers"):
        with torch.no_grad():
            features = net.features(params, torch.cat([episode.support, episode.query]))
            if config.head == "answers" and expected is not None:
                features = expected([features])
        return cosine_scores(features, episode.support_labels, way, centre=config.centre)
    net, params = head_for(net, params, way)
    params = {name: p.detach().requires_grad_() for name, p in params.items()}
    if config.head == "prototype+finetune":
        with torch.no_grad():
            features = net.features(params, episode.support)
        params |= {
            name: p.requires_grad_() for name, p in prototype_layer(features, episode.support_labels, way).items()
        }
    fast = fine_tune(net, params, episode.support, episode.support_labels, lr=config.lr, steps=config.steps)
    with torch.no_grad():
        return net(fast, episode.query)
