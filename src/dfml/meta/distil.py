"""Bi-level distillation from one API: the inner level (eq:inner), the outer level (eq:outer), and what may vanish."""

from typing import NamedTuple

import torch
from torch import Tensor

from dfml.losses import distillation_kl
from dfml.meta.adapt import adapt
from dfml.meta.tasks import Model, Scored, Task, TaskGradient
from dfml.nets.functional import Params
from dfml.recovery.recovered import RecoveredSet


class Vanish(NamedTuple):
    """Is there anything left for the outer level to learn?

    Knowledge vanish (def:inj) is a mutual information that nobody can estimate, so these stand for it: where the
    student that was distilled on the support set already equals the API on the query set, the outer loss and its
    gradient are gone. Not to be confused with memorisation, where the support set is the useless one.
    """

    inner_loss: float  # on the support set at theta_i
    outer_loss: float  # on the query set at theta_i
    outer_gradient: float  # the norm of d outer / d theta_i


def inner(
    net: Model, params: Params, support: RecoveredSet, *, lr: float = 0.01, steps: int = 10, first_order: bool = False
) -> Params:
    """theta_i: the student that imitates the API on the support set. Costs no query: the answers are in the set."""
    return adapt(params, lambda p: support_loss(net, p, support), lr=lr, steps=steps, first_order=first_order)


def support_loss(net: Model, params: Params, support: RecoveredSet) -> Tensor:
    """KL(API || student), mean over the images of the set; a scalar."""
    return distillation_kl(net(params, support.images), support.probs)


def outer_loss(net: Model, params: Params, query: RecoveredSet) -> Scored:
    """The same on the query set; the accuracy is how often student and API name the same class."""
    logits = net(params, query.images)
    same = logits.argmax(1) == query.probs.argmax(1)
    return Scored(distillation_kl(logits, query.probs), same.float().mean().item())


def distillation_task(net: Model, support: RecoveredSet, query: RecoveredSet) -> Task:
    """One episode of BiDf-MKD, for `mean_gradient` beside any other tasks."""
    return Task(lambda p: support_loss(net, p, support), lambda p: outer_loss(net, p, query))


@torch.no_grad()
def diagnose(task: Task, result: TaskGradient) -> Vanish:
    """The knowledge-vanish diagnostic of a task whose gradient is known; costs one forward pass on the support set."""
    return Vanish(task.inner(result.adapted).item(), result.loss, result.norm)
