"""Bi-level distillation from one API: the inner level (eq:inner), the outer level (eq:outer), and what may vanish."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from dfml.losses import distillation_kl
from dfml.meta.adapt import adapt
from dfml.meta.tasks import Model, Scored, Task, TaskGradient
from dfml.nets.functional import Params
from dfml.recovery.recovered import RecoveredSet

Divergence = Callable[[Tensor, Tensor], Tensor]
"""(student logits, API probabilities) -> scalar"""


class Vanish(NamedTuple):
    """Is there anything left for the outer level to learn?

    Knowledge vanish (def:inj) is a mutual information that cannot be estimated, so these stand for it: where the
    student that was distilled on the support set already equals the API on the query set, the outer loss and its
    gradient are gone. Not to be confused with memorisation, where the support set is the useless one.
    """

    inner_loss: float  # on the support set at theta_i
    outer_loss: float  # on the query set at theta_i
    outer_gradient: float  # the norm of d outer / d theta_i


def inner(
    net: Model,
    params: Params,
    support: RecoveredSet,
    *,
    lr: float = 0.01,
    steps: int = 10,
    first_order: bool = False,
    divergence: Divergence = distillation_kl,
) -> Params:
    """theta_i: the student that imitates the API on the support set. Costs no query: the answers are in the set."""
    task = distillation_task(net, support, support, divergence=divergence)
    return adapt(params, task.inner, lr=lr, steps=steps, first_order=first_order)


def distillation_task(
    net: Model, support: RecoveredSet, query: RecoveredSet, *, divergence: Divergence = distillation_kl
) -> Task:
    """One episode of BiDf-MKD, for `mean_gradient` beside any other tasks.

    The loss of a set is KL(API || student), mean over its images; the accuracy on the query set is how often the two
    name the same class.
    """

    def support_loss(params: Params) -> Tensor:
        return divergence(net(params, support.images), support.probs)

    def query_loss(params: Params) -> Scored:
        logits = net(params, query.images)
        same = logits.argmax(1) == query.probs.argmax(1)
        return Scored(divergence(logits, query.probs), same.float().mean().item())

    return Task(support_loss, query_loss)


@torch.no_grad()
def diagnose(task: Task, result: TaskGradient) -> Vanish:
    """The knowledge-vanish diagnostic of a task whose gradient is known; costs one forward pass on the support set."""
    return Vanish(task.inner(result.adapted).item(), result.loss, result.norm)
