"""Losses against closed forms, torch.distributions, and answers as real endpoints give them."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch.distributions import Categorical, kl_divergence

from dfml.losses import boundary, distillation_kl, released_divergence, target_nll
from dfml.rng import stream


def random_pair(n: int = 64, k: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
    rng = stream(0, "losses")
    return torch.randn(n, k, generator=rng).double() * 3, (torch.randn(n, k, generator=rng).double() * 3).softmax(1)


def test_distillation_is_the_kl_of_torch_distributions_averaged_over_images():
    logits, probs = random_pair()
    expected = kl_divergence(Categorical(probs=probs), Categorical(logits=logits)).mean()
    torch.testing.assert_close(distillation_kl(logits, probs), expected)


def test_distillation_of_two_known_coins():
    # KL((1/2, 1/2) || (1/4, 3/4)) = 1/2 log 2 + 1/2 log 2/3
    logits = torch.tensor([[0.25, 0.75]], dtype=torch.float64).log()
    value = distillation_kl(logits, torch.tensor([[0.5, 0.5]], dtype=torch.float64)).item()
    assert value == pytest.approx(0.5 * math.log(2) + 0.5 * math.log(2 / 3), abs=1e-12)


def test_distillation_and_its_gradient_vanish_where_student_and_teacher_agree():
    logits, _ = random_pair()
    logits.requires_grad_()
    loss = distillation_kl(logits, logits.detach().softmax(1))
    (gradient,) = torch.autograd.grad(loss, logits)
    assert loss.item() == pytest.approx(0, abs=1e-12)
    assert gradient.abs().max().item() < 1e-12


def test_a_certain_teacher_makes_distillation_the_cross_entropy():
    logits, _ = random_pair()
    labels = torch.randint(5, (64,), generator=stream(1))
    torch.testing.assert_close(distillation_kl(logits, F.one_hot(labels, 5).double()), F.cross_entropy(logits, labels))


def test_rounded_answers_leave_value_and_gradient_finite():
    logits, probs = random_pair()
    logits.requires_grad_()
    loss = distillation_kl(logits * 1e4, probs.round(decimals=1))
    (gradient,) = torch.autograd.grad(loss, logits)
    assert loss.isfinite()
    assert gradient.isfinite().all()


def test_target_nll_is_minus_log_p_above_the_floor():
    _, probs = random_pair()
    targets = torch.randint(5, (64,), generator=stream(2))
    torch.testing.assert_close(
        target_nll(probs, targets, floor=1e-12), F.nll_loss(probs.log(), targets, reduction="none")
    )


def test_below_the_floor_target_nll_is_the_tangent_and_more_is_always_better():
    p = torch.tensor([0.0, 2.5e-4, 5e-4, 1e-3, 2e-3, 1.0], dtype=torch.float64)
    probs = torch.stack([p, 1 - p], 1).requires_grad_()
    values = target_nll(probs, torch.zeros(6, dtype=torch.long), floor=1e-3)
    tangent = [-math.log(1e-3) + (1e-3 - x) / 1e-3 for x in (0.0, 2.5e-4, 5e-4)]
    assert values[:3].tolist() == pytest.approx(tangent, abs=1e-12)
    assert (values.diff() < 0).all()
    (gradient,) = torch.autograd.grad(values.sum(), probs)
    assert gradient[:, 0].tolist() == pytest.approx([-1e3] * 4 + [-500, -1])


def test_boundary_pays_for_disagreement_only_where_the_indicator_holds():
    logits, probs = random_pair()
    targets = torch.randint(5, (64,), generator=stream(3))
    agree = torch.rand(64, generator=stream(4)) < 0.5
    divergence = kl_divergence(Categorical(probs=probs), Categorical(logits=logits))
    expected = target_nll(probs, targets) - 0.3 * agree * divergence
    torch.testing.assert_close(boundary(probs, targets, logits, agree, weight=0.3), expected)


def test_by_the_letter_of_the_equation_the_student_comes_first():
    logits, probs = random_pair()
    targets, agree = torch.randint(5, (64,), generator=stream(3)), torch.rand(64, generator=stream(4)) < 0.5
    divergence = kl_divergence(Categorical(logits=logits), Categorical(probs=probs))
    expected = target_nll(probs, targets, floor=1e-12) - 0.3 * agree * divergence
    values = boundary(probs, targets, logits, agree, weight=0.3, first="student", floor=1e-12)
    torch.testing.assert_close(values, expected)


@pytest.mark.parametrize("first", ["api", "student"])
def test_boundary_is_finite_whatever_zeros_either_side_holds(first):
    probs = torch.eye(4)
    logits = 1e3 * torch.eye(4)[[1, 0, 2, 3]]  # a softmax of this is exactly one-hot in float32
    assert set(logits.softmax(1).flatten().tolist()) == {0.0, 1.0}
    values = boundary(probs, torch.tensor([0, 0, 0, 3]), logits, torch.ones(4, dtype=torch.bool), first=first)
    assert values.isfinite().all()
    assert values[3].item() == pytest.approx(0, abs=1e-5)


def test_the_released_divergence_prefers_a_one_hot_student_to_the_teacher_itself():
    """The defect it is kept for: the optimum of the true KL is the teacher, of this one a corner of the simplex."""
    teacher = torch.tensor([[0.6, 0.3, 0.1]])
    corner, equal = torch.tensor([[30.0, 0.0, 0.0]]), teacher.log()
    assert released_divergence(corner, teacher) < released_divergence(equal, teacher)
    assert distillation_kl(corner, teacher) > distillation_kl(equal, teacher)
    by_hand = (teacher * (teacher.log() - equal.softmax(-1))).mean()
    assert torch.allclose(released_divergence(equal, teacher), by_hand)
