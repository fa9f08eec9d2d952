"""Task memory replay (eq:memory): MAML on interpolated tasks. Needs no API."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from dfml.config import above_zero, zero_or_more
from dfml.episode import Episode
from dfml.meta.tasks import MetaGradient, Model, Scored, Task, mean_gradient
from dfml.nets.functional import Params


@dataclass(frozen=True, kw_only=True)
class ReplayConfig:
    """How MAML runs on the memory."""

    inner_lr: float = 0.01
    inner_steps: int = 5
    outer_lr: float = 0.001
    batch: int = 4
    """tasks a meta-step"""
    shot: int = 5
    query: int = 15
    first_order: bool = False

    def __post_init__(self) -> None:
        above_zero(self, "replay", "batch", "shot", "query")
        zero_or_more(self, "replay", "inner_lr", "inner_steps", "outer_lr")


def replay_task(net: Model, episode: Episode) -> Task:
    """Cross-entropy on the support set inside, on the query set outside."""

    def inner(params: Params) -> Tensor:
        return F.cross_entropy(net(params, episode.support), episode.support_labels)

    def outer(params: Params) -> Scored:
        logits = net(params, episode.query)
        right = logits.argmax(1) == episode.query_labels
        return Scored(F.cross_entropy(logits, episode.query_labels), right.float().mean().item())

    return Task(inner, outer)


def meta_gradient(
    net: Model,
    params: Params,
    episodes: Sequence[Episode],
    *,
    inner_lr: float = 0.01,
    inner_steps: int = 5,
    first_order: bool = False,
    recompute: bool = False,
    workers: int = 1,
) -> MetaGradient:
    """The gradient of the mean outer loss of a meta-batch, with its loss and accuracy."""
    tasks = [replay_task(net, episode) for episode in episodes]
    return mean_gradient(
        params,
        tasks,
        inner_lr=inner_lr,
        inner_steps=inner_steps,
        first_order=first_order,
        recompute=recompute,
        workers=workers,
    )
