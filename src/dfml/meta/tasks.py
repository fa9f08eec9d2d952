"""The meta-gradient of any task: distillation from an API and replay from memory differ only in their two losses."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from dfml.errors import ConfigError
from dfml.hardware import device_of
from dfml.meta.adapt import adapt
from dfml.nets.functional import Params
from dfml.runtime import single_cores

Model = Callable[[Params, Tensor], Tensor]
"""(params, images) -> logits (n, way): a `Net`, or anything as pure"""


class Scored(NamedTuple):
    """An outer loss, and how many of the answers behind it were right."""

    loss: Tensor  # scalar
    accuracy: float  # a fraction


class Task(NamedTuple):
    """What a bi-level step needs to know: minimise `inner` from theta to reach theta_i, then judge theta_i."""

    inner: Callable[[Params], Tensor]  # the loss on the support set, a scalar
    outer: Callable[[Params], Scored]  # the loss on the query set


class TaskGradient(NamedTuple):
    """What one task says about theta."""

    grads: Params  # d outer(theta_i(theta)) / d theta
    loss: float  # outer(theta_i)
    accuracy: float  # on the query set, after adaptation
    norm: float  # of d outer / d theta_i, before the inner loop is differentiated
    adapted: Params  # theta_i, detached


class MetaGradient(NamedTuple):
    """The mean over a meta-batch."""

    grads: Params
    loss: float
    accuracy: float
    tasks: tuple[TaskGradient, ...]


def task_gradient(
    params: Params,
    task: Task,
    *,
    inner_lr: float,
    inner_steps: int,
    first_order: bool = False,
    recompute: bool = False,
) -> TaskGradient:
    """The gradient of one task's outer loss through its inner loop.

    With `recompute` only the parameters between the steps of that loop are kept, and each step is made again when it is
    differentiated: the same bits, in the memory of one step, for up to a third more time.
    """
    descend = partial(adapt, loss=task.inner, lr=inner_lr, first_order=first_order)
    parts = inner_steps if recompute and not first_order and inner_steps else 1
    steps, starts = inner_steps // parts, [_leaves(params)]
    for _ in range(parts - 1):
        starts.append(_leaves(descend(starts[-1], steps=steps)))
    adapted = descend(starts[-1], steps=steps)
    with torch.enable_grad():
        loss, accuracy = task.outer(adapted)
    # The gradient at theta_i comes for nothing on the way; the rest multiplies it by d theta_i / d theta.
    grads = at_end = torch.autograd.grad(loss, list(adapted.values()), materialize_grads=True)
    adapted, ends = {name: p.detach() for name, p in adapted.items()}, list(adapted.values())
    while starts and not first_order:
        start = starts.pop()
        grads = torch.autograd.grad(ends, list(start.values()), grads, materialize_grads=True)
        ends = list(descend(starts[-1], steps=steps).values()) if starts else []
    return TaskGradient(
        grads=dict(zip(params, grads, strict=True)),
        loss=loss.item(),
        accuracy=accuracy,
        norm=torch.stack([g.square().sum() for g in at_end]).sum().sqrt().item(),
        adapted=adapted,
    )


def _leaves(params: Params) -> Params:
    """The same values with no history, to be differentiated by."""
    return {name: p.detach().requires_grad_() for name, p in params.items()}


def mean_gradient(
    params: Params,
    tasks: Sequence[Task],
    *,
    inner_lr: float,
    inner_steps: int,
    first_order: bool = False,
    recompute: bool = False,
    workers: int = 1,
) -> MetaGradient:
    """The mean of the tasks' gradients (see `task_gradient`), `workers` tasks side by side.

    Small networks leave the cores of one task idle, so each task runs on one core and the tasks share them out. The sum
    goes in the order of `tasks` and every task computes on one thread, whatever `workers` is: the result is the same to
    the last bit. On a GPU, which shares its own cores out, tasks follow one another.
    """
    if not tasks:
        raise ConfigError("a meta-batch needs at least one task, got none")
    work = partial(
        task_gradient,
        params,
        inner_lr=inner_lr,
        inner_steps=inner_steps,
        first_order=first_order,
        recompute=recompute,
    )
    if device_of(params).type == "cpu":
        with single_cores(workers) as side_by_side:
            results = tuple(side_by_side(work, tasks))
    else:
        results = tuple(map(work, tasks))
    share = 1 / len(results)
    grads = {name: torch.stack([r.grads[name] for r in results]).sum(0) * share for name in params}
    return MetaGradient(grads, sum(r.loss for r in results) * share, sum(r.accuracy for r in results) * share, results)
