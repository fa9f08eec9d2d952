"""Ways to tell new classes apart by a few images of each: nearest class mean, or fine-tuning."""

from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from dfml.errors import ConfigError
from dfml.meta.adapt import adapt
from dfml.nets.answer_directions import MANY_CLASSES
from dfml.nets.expected_answers import ExpectedAnswers
from dfml.nets.functional import Net, Params

Head = Literal["finetune", "prototype", "prototype+finetune", "answers"]
HEADS: tuple[Head, ...] = get_args(Head)


def best_head(expected: ExpectedAnswers | None) -> Head:
    """What to use where nothing is asked for; chosen on validation classes.

    Answers of 1,000 classes drown the features in files that were written before their weight followed what they tell.
    """
    if expected is None or (not expected.weighed and expected.mean.shape[1] > MANY_CLASSES):
        return "prototype"
    return "answers"


def check_expected(head: Head, expected: ExpectedAnswers | None) -> None:
    """The head `answers` compares what APIs are expected to answer, which not every method learns."""
    if head == "answers" and expected is None:
        raise ConfigError(
            "the head answers needs an initialisation that was taught by answers, as chorus makes it; use prototype"
        )


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


def class_directions(examples: Tensor, labels: Tensor, way: int) -> tuple[Tensor, Tensor]:
    """Vectors (way, d) along which the directions (n, d) of a support set differ by class, and their mean (d,).

        W = Y^T (S S^T + 1)^-1 S,    S = examples - mean,    Y = labels as 0 and 1, less their mean

    Ridge regression of the labels. One example a class gives nearest class means; of several it learns which
    differences are between classes and which within.
    """
    mean, wanted = examples.mean(0), F.one_hot(labels, way).to(examples.dtype)
    apart = examples - mean
    products = apart @ apart.T + torch.eye(len(apart), dtype=apart.dtype, device=apart.device)
    return torch.linalg.solve(products, wanted - wanted.mean(0)).T @ apart, mean


def prototype_layer(features: Tensor, labels: Tensor, way: int) -> Params:
    """A linear head that begins as nearest class mean: w_k = 2 c_k / d, b_k = -|c_k|^2 / d (Proto-MAML).

    The scale 1 / d makes the logits mean squared distances, of order one whatever the width, so that the
    fine-tuning rate of a learned head suits this one.
    """
    means = class_means(features, labels, way)
    dimension = means.shape[1]
    return {"head.weight": 2 * means / dimension, "head.bias": -(means**2).sum(1) / dimension}
