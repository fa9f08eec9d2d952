"""How a student's body is stepped: filters turn along evened gradients, the rest follows Adam."""

import math

import pytest
import torch

from dfml.methods.chorus.descent import Descent, Turning, evened
from dfml.rng import stream


@pytest.mark.parametrize("shape", [(8, 27), (40, 9), (16, 16)])
def test_an_evened_matrix_is_near_the_nearest_one_of_singular_values_one(shape, rng):
    """Which is U V^T, by the singular value decomposition; the rounds bring every value between 0.6 and 1.3."""
    left, _, right = torch.linalg.svd(torch.randn(shape, generator=rng), full_matrices=False)
    values = torch.logspace(-1.5, 0, min(shape))
    made = evened(left @ values.diag() @ right)
    found = (left.T @ made @ right.T).diagonal()
    assert found.min() > 0.6
    assert found.max() < 1.3
    assert torch.nn.functional.cosine_similarity(made.flatten(), (left @ right).flatten(), dim=0) > 0.97


def test_nothing_to_learn_turns_nothing():
    assert torch.equal(evened(torch.zeros(4, 9)), torch.zeros(4, 9))


def test_filters_turn_by_the_angle_and_keep_their_length(rng):
    before = torch.randn(16, 8, 3, 3, generator=rng)
    filters = {"conv": before.clone().requires_grad_()}
    Turning(filters).step({"conv": torch.randn(before.shape, generator=rng)}, angle=0.1)
    after = filters["conv"].detach()
    assert torch.isclose(after.norm(), before.norm(), rtol=1e-5)
    cosine = torch.nn.functional.cosine_similarity(after.flatten(), before.flatten(), dim=0)
    assert math.acos(float(cosine)) == pytest.approx(0.1, rel=0.2)


def test_a_soft_direction_is_learned_as_fast_as_a_loud_one():
    """A gradient of two orthogonal parts, one thirty times as strong: plain descent would hardly see the weak one."""
    filters = {"conv": torch.zeros(2, 1, 2, 2).index_fill(0, torch.tensor([0, 1]), 1.0).requires_grad_()}
    gradient = torch.tensor([[1.0, -1, 0, 0], [0, 0, 0.03, -0.03]]).view(2, 1, 2, 2)
    before = filters["conv"].detach().clone()
    Turning(filters).step({"conv": gradient}, angle=0.01)
    loud, soft = (filters["conv"].detach() - before).flatten(1).norm(dim=1)
    assert 0.5 < soft / loud < 2


def test_without_an_angle_it_is_torchs_adam_under_its_one_cycle(rng):
    start = {"conv": torch.randn(4, 3, 3, 3, generator=rng), "bias": torch.randn(4, generator=rng)}
    ours, theirs = ({name: p.clone().requires_grad_() for name, p in start.items()} for _ in range(2))
    descent = Descent(ours, lr=0.01, angle=0.0, steps=8)
    adam = torch.optim.Adam(theirs.values(), lr=0.01, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(adam, 0.01, total_steps=8)
    for step in range(8):
        gradient = {name: torch.randn(p.shape, generator=stream(step, name)) for name, p in start.items()}
        descent.step(dict(gradient))
        for name, p in theirs.items():
            p.grad = gradient[name]
        adam.step()
        schedule.step()
    assert all(torch.equal(p, theirs[name]) for name, p in ours.items())
