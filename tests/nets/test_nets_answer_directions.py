"""Answers as directions, against NumPy."""

import numpy as np
import torch

from dfml.nets.answer_directions import answer_directions


def formula(probs):
    logs = np.log(1 + 1000 * probs)
    spread = logs - logs.mean(-1, keepdims=True)
    return spread / np.linalg.norm(spread, axis=-1, keepdims=True)


def test_the_direction_is_the_formula(rng):
    probs = torch.rand(4, 3, 50, generator=rng).softmax(-1)
    assert np.allclose(answer_directions(probs).numpy(), formula(probs.double().numpy()), atol=1e-4)


def test_columns_that_are_no_classes_change_nothing(rng):
    probs = torch.rand(4, 2, 30, generator=rng).mul(5).softmax(-1)
    filled = torch.cat([probs, torch.zeros(4, 2, 9)], -1)
    present = torch.arange(39).expand(2, -1) < 30
    directions = answer_directions(filled, present)
    assert torch.allclose(directions[..., :30], answer_directions(probs), atol=1e-6)
    assert bool((directions[..., 30:] == 0).all())


def test_a_uniform_answer_has_no_direction():
    assert bool((answer_directions(torch.full((2, 40), 1 / 40)).abs() < 1e-3).all())
