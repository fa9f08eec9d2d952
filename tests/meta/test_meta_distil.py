"""Bi-level distillation on a plane: an API with a curved boundary, a student with straight ones."""

from typing import Any

import pytest
import torch
from torch import Tensor

from dfml.episode import Episode
from dfml.losses import boundary, distillation_kl
from dfml.meta.adam import AdamState, adam
from dfml.meta.distil import Vanish, diagnose, distillation_task, inner
from dfml.meta.replay import replay_task
from dfml.meta.tasks import mean_gradient, task_gradient
from dfml.nets.functional import Params
from dfml.recovery.recovered import ClassKey, RecoveredSet
from dfml.rng import stream

CLASSES = (ClassKey("disc", "inside"), ClassKey("disc", "outside"))
START = {"w": torch.zeros(2, 2, dtype=torch.float64), "b": torch.zeros(2, dtype=torch.float64)}
INNER: dict[str, Any] = {"inner_lr": 1.0, "inner_steps": 60}


def student(params: Params, points: Tensor) -> Tensor:
    return points @ params["w"].T + params["b"]


def disc_api(points: Tensor) -> Tensor:
    """Sure of `inside` at the origin, of `outside` far away; the boundary is the unit circle."""
    score = 4 * (1 - points.square().sum(1))
    return torch.stack([score, -score], 1).softmax(1)


def asked(points: Tensor) -> RecoveredSet:
    probs = disc_api(points)
    return RecoveredSet(points, probs.argmax(1), probs, CLASSES, len(points))


def cluster(count: int, *name: str) -> Tensor:
    """Points around the circle's rightmost point, where a line nearly does."""
    return torch.tensor([1.0, 0.0], dtype=torch.float64) + 0.25 * torch.randn(
        count, 2, generator=stream(0, *name), dtype=torch.float64
    )


def between_the_boundaries(params: Params, count: int) -> Tensor:
    """The best of many points by eq:adaptive: what boundary recovery aims at."""
    pool = 3 * torch.rand(4000, 2, generator=stream(0, "pool"), dtype=torch.float64) - 1.5
    probs, logits = disc_api(pool), student(params, pool)
    agree = probs.argmax(1) == logits.argmax(1)
    return pool[boundary(probs, probs.argmax(1), logits, agree, weight=1.0).argsort()[:count]]


def look(support: RecoveredSet, query: RecoveredSet, params: Params = START) -> Vanish:
    task = distillation_task(student, support, query)
    return diagnose(task, task_gradient(params, task, **INNER))


def test_inner_distillation_reaches_the_api_where_it_can():
    """A linear API is in the student's reach: after enough steps they agree also where nobody looked."""
    truth = {"w": torch.tensor([[1.0, -0.5], [-1.0, 0.5]], dtype=torch.float64), "b": START["b"]}
    points = cluster(20, "linear")
    support = RecoveredSet(points, START["b"].long(), student(truth, points).softmax(1), CLASSES, 20)
    theta = inner(student, START, support, lr=2.0, steps=3000, first_order=True)
    elsewhere = 3 * torch.randn(50, 2, generator=stream(0, "elsewhere"), dtype=torch.float64)
    assert distillation_kl(student(theta, elsewhere), student(truth, elsewhere).softmax(1)).item() < 1e-5


def test_inner_is_the_start_of_the_task_that_the_outer_level_judges():
    support, query = asked(cluster(12, "s")), asked(cluster(12, "q"))
    theta = inner(student, START, support, lr=1.0, steps=60)
    result = task_gradient(START, distillation_task(student, support, query), **INNER)
    assert all(torch.equal(theta[name], result.adapted[name]) for name in theta)
    loss, accuracy = distillation_task(student, query, query).outer(theta)
    assert (result.loss, result.accuracy) == (loss.item(), accuracy)
    probs = student(theta, query.images).softmax(1)
    by_hand = (query.probs * (query.probs / probs).log()).sum(1).mean()
    assert loss.item() == pytest.approx(by_hand.item())


def test_a_query_set_equal_to_the_support_set_teaches_nothing():
    support = asked(cluster(12, "s"))
    same, fresh = look(support, support), look(support, asked(cluster(12, "q")))
    theta = inner(student, START, support, lr=1.0, steps=60, first_order=True)
    sharp = look(support, asked(between_the_boundaries(theta, 12)))
    assert same.outer_loss == same.inner_loss == fresh.inner_loss
    assert same.outer_gradient < 0.1 * fresh.outer_gradient
    assert sharp.outer_loss > 3 * fresh.outer_loss
    assert sharp.outer_gradient > fresh.outer_gradient


def test_over_meta_steps_the_outer_gradient_dies_out_where_support_is_query():
    support = asked(cluster(12, "s"))
    far = asked(between_the_boundaries(inner(student, START, support, lr=1.0, steps=60, first_order=True), 12))

    def norms(query: RecoveredSet) -> list[float]:
        task, params, state = distillation_task(student, support, query), START, AdamState.fresh(START)
        seen = []
        for _ in range(10):
            step = mean_gradient(params, [task], **INNER)
            params, state = adam(params, step.grads, state, lr=0.5)
            seen.append(step.tasks[0].norm)
        return seen

    vanishing, lasting = norms(support), norms(far)
    assert vanishing[-1] < 0.3 * vanishing[0]
    assert sum(lasting) > 10 * sum(vanishing)


def test_distillation_and_replay_tasks_run_side_by_side():
    support, query = asked(cluster(12, "s")), asked(cluster(12, "q"))
    episode = Episode(support.images, support.targets, query.images, query.targets, ("inside", "outside"))
    tasks = [distillation_task(student, support, query), replay_task(student, episode)]
    both = mean_gradient(START, tasks, inner_lr=0.5, inner_steps=5, workers=2)
    alone = [task_gradient(START, task, inner_lr=0.5, inner_steps=5) for task in tasks]
    for name, grad in both.grads.items():
        torch.testing.assert_close(grad, (alone[0].grads[name] + alone[1].grads[name]) / 2)
