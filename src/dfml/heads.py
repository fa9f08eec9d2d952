"""How an initialisation becomes a classifier for one task, under the field's transductive protocol.

Every forward pass normalises by the statistics of its own batch, as the paper's meta-test does: what is predicted
for one query depends on the others. `dfml.adaptation` is the product without that dependence.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from dfml.episode import Episode
from dfml.errors import ConfigError
from dfml.meta.adapt import adapt
from dfml.nets.functional import Net, Params
from dfml.nets.voices import Voices

Head = Literal["finetune", "prototype", "prototype+finetune", "answers"]
HEADS: tuple[Head, ...] = get_args(Head)


@dataclass(frozen=True, kw_only=True)
class HeadConfig:
    """The protocol of one meta-test. Defaults are the paper's fine-tuning."""

    head: Head = "finetune"
    lr: float = 0.01
    steps: int = 10
    centre: bool = False
    """subtract the mean of the task's features before comparing directions (prototype and answers only)"""


def best_head(voices: Voices | None) -> Head:
    """What to use where nothing is asked for; chosen on validation classes."""
    return "prototype" if voices is None else "answers"


def check_voices(head: Head, voices: Voices | None) -> None:
    """The head `answers` compares what APIs are expected to answer, which not every method learns."""
    if head == "answers" and voices is None:
        raise ConfigError(
            "the head answers needs an initialisation that was taught by answers, as chorus makes it; use prototype"
        )


def check_way(net: Net, way: int, head: Head) -> None:
    """Fine-tuning starts from the head that was learned, so its ways must be the task's."""
    if head == "finetune" and way != net.spec.way:
        raise ConfigError(
            f"this initialisation has a {net.spec.way}-way head, which cannot be fine-tuned to {way} classes; "
            "use the head prototype or prototype+finetune, which take any number"
        )


def task_accuracy(
    net: Net, params: Params, episode: Episode, config: HeadConfig, *, voices: Voices | None = None
) -> float:
    """The fraction of the episode's queries that are classified right after adapting to its support set."""
    scores = task_scores(net, params, episode, config, voices=voices)
    return (scores.argmax(1) == episode.query_labels).float().mean().item()


def task_scores(
    net: Net, params: Params, episode: Episode, config: HeadConfig, *, voices: Voices | None = None
) -> Tensor:
    """One score a query and class (q, way); the largest wins."""
    way = len(episode.classes)
    check_way(net, way, config.head)
    check_voices(config.head, voices)
    if config.head in ("prototype", "answers"):
        with torch.no_grad():
            features = net.features(params, torch.cat([episode.support, episode.query]))
            if config.head == "answers" and voices is not None:
                features = voices(features)
        return cosine_scores(features, episode.support_labels, way, centre=config.centre)
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


def fine_tune(net: Net, params: Params, images: Tensor, labels: Tensor, *, lr: float, steps: int) -> Params:
    """Plain gradient descent on the cross-entropy of the support set."""

    def loss(p: Params) -> Tensor:
        return F.cross_entropy(net(p, images), labels)

    fast = adapt(params, loss, lr=lr, steps=steps, first_order=True)
    return {name: p.detach() for name, p in fast.items()}


def cosine_scores(features: Tensor, labels: Tensor, way: int, *, centre: bool) -> Tensor:
    """Cosine of every query's features with each class mean.

    `features` (s + q, d) holds the support images first; `labels` (s,) are theirs.
    """
    if centre:
        features = features - features.mean(0)
    features = F.normalize(features, dim=1)
    prototypes = F.normalize(class_means(features[: len(labels)], labels, way), dim=1)
    return features[len(labels) :] @ prototypes.T


def class_means(features: Tensor, labels: Tensor, way: int) -> Tensor:
    """The mean feature (way, d) of each class; classes may differ in shots."""
    member = F.one_hot(labels, way).to(features.dtype)
    return (member.T @ features) / member.sum(0).unsqueeze(1)


def prototype_layer(features: Tensor, labels: Tensor, way: int) -> Params:
    """A linear head that begins as nearest class mean: w_k = 2 c_k / d, b_k = -|c_k|^2 / d (Proto-MAML).

    The scale 1 / d makes the logits mean squared distances, of order one whatever the width, so that the
    fine-tuning rate of a learned head suits this one.
    """
    means = class_means(features, labels, way)
    dimension = means.shape[1]
    return {"head.weight": 2 * means / dimension, "head.bias": -(means**2).sum(1) / dimension}
