"""The inner loop and its derivative on problems solved by hand."""

import pytest
import torch

from dfml.meta.adapt import adapt
from dfml.meta.tasks import Scored, Task, task_gradient

A = torch.tensor([[3.0, 1.0], [1.0, 2.0]], dtype=torch.float64)
TARGET = torch.tensor([1.0, -2.0], dtype=torch.float64)
START = torch.tensor([0.5, 0.25], dtype=torch.float64)


def quadratic(params):
    """1/2 (w - t)' A (w - t): the gradient is A (w - t), so a step contracts w - t by I - lr A."""
    gap = params["w"] - TARGET
    return gap @ A @ gap / 2


def test_descent_on_a_quadratic_contracts_as_its_matrix_says():
    adapted = adapt({"w": START}, quadratic, lr=0.1, steps=7)["w"]
    contraction = torch.linalg.matrix_power(torch.eye(2, dtype=torch.float64) - 0.1 * A, 7)
    torch.testing.assert_close(adapted, TARGET + contraction @ (START - TARGET))


@pytest.mark.parametrize("first_order", [False, True])
def test_the_jacobian_is_the_contraction_or_first_order_the_identity(first_order):
    start = START.clone().requires_grad_()

    def descend(w):
        return adapt({"w": w}, quadratic, lr=0.1, steps=7, first_order=first_order)["w"]

    jacobian = torch.stack([torch.autograd.grad(descend(start)[i], start)[0] for i in range(2)])
    identity = torch.eye(2, dtype=torch.float64)
    expected = identity if first_order else torch.linalg.matrix_power(identity - 0.1 * A, 7)
    torch.testing.assert_close(jacobian, expected)


def test_second_order_gradient_of_a_linear_net_by_hand():
    """One support pair (x, y), one query pair (a, b), squared errors, one step:

    w' = w - lr (w.x - y) x,  outer = 1/2 (w'.a - b)^2,  d outer / d w = (w'.a - b) (a - lr (a.x) x);
    first order drops the second term.
    """
    x, y = torch.tensor([1.0, 2.0], dtype=torch.float64), 0.5
    a, b = torch.tensor([-1.0, 1.5], dtype=torch.float64), 2.0
    lr = 0.1
    moved = START - lr * (START @ x - y) * x
    task = Task(
        inner=lambda p: (p["w"] @ x - y) ** 2 / 2,
        outer=lambda p: Scored((p["w"] @ a - b) ** 2 / 2, 0.0),
    )
    exact = task_gradient({"w": START}, task, inner_lr=lr, inner_steps=1)
    torch.testing.assert_close(exact.adapted["w"], moved)
    torch.testing.assert_close(exact.grads["w"], (moved @ a - b) * (a - lr * (a @ x) * x))
    assert exact.norm == pytest.approx(((moved @ a - b) * a).norm().item())
    crude = task_gradient({"w": START}, task, inner_lr=lr, inner_steps=1, first_order=True)
    torch.testing.assert_close(crude.grads["w"], (moved @ a - b) * a)
    assert crude.loss == exact.loss == pytest.approx(((moved @ a - b) ** 2 / 2).item())


@pytest.mark.parametrize("steps", [1, 2, 7])
@pytest.mark.parametrize("recompute", [False, True])
def test_the_gradient_through_many_steps_is_that_of_the_contraction(steps, recompute):
    """The outer loss is the sum of w', so its gradient is the column sums of (I - lr A)^steps."""
    task = Task(inner=quadratic, outer=lambda p: Scored(p["w"].sum(), 0.0))
    result = task_gradient({"w": START}, task, inner_lr=0.1, inner_steps=steps, recompute=recompute)
    contraction = torch.linalg.matrix_power(torch.eye(2, dtype=torch.float64) - 0.1 * A, steps)
    torch.testing.assert_close(result.grads["w"], contraction.sum(0))
    torch.testing.assert_close(result.adapted["w"], TARGET + contraction @ (START - TARGET))


@pytest.mark.parametrize("recompute", [False, True])
def test_no_steps_change_nothing_and_the_gradient_is_plain(recompute):
    task = Task(inner=quadratic, outer=lambda p: Scored(quadratic(p), 0.0))
    result = task_gradient({"w": START}, task, inner_lr=0.1, inner_steps=0, recompute=recompute)
    torch.testing.assert_close(result.grads["w"], A @ (START - TARGET))
    assert torch.equal(result.adapted["w"], START)


@pytest.mark.parametrize("recompute", [False, True])
def test_parameters_out_of_reach_stay_as_they_are(recompute):
    params = {"w": START, "idle": torch.ones(3, dtype=torch.float64)}
    task = Task(inner=quadratic, outer=lambda p: Scored(quadratic(p), 0.0))
    result = task_gradient(params, task, inner_lr=0.1, inner_steps=2, recompute=recompute)
    assert torch.equal(result.adapted["idle"], params["idle"])
    assert not result.grads["idle"].any()


def test_neither_the_start_nor_the_callers_grad_mode_is_touched():
    start = {"w": START.clone()}
    with torch.no_grad():
        adapted = adapt(start, quadratic, lr=0.1, steps=3)
    assert torch.equal(start["w"], START)
    assert not start["w"].requires_grad
    assert not torch.equal(adapted["w"], START)
