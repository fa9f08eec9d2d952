"""The objective at images and at probes around them, against the formulas of eq:lossclsbatch and eq:adaptive."""

import numpy as np
import pytest
import torch

from dfml.apis.blackbox import ApiSpec
from dfml.apis.degrade import Rounded
from dfml.apis.local.function import FunctionApi
from dfml.apis.local.module import ModuleApi
from dfml.errors import ConfigError
from dfml.recovery.objectives import RecoveryObjective

SPEC = ApiSpec(name="toy", classes=("a", "b", "c"), image=(1, 2, 2))
WEIGHTS = torch.tensor([[3.0, -1, 0, 1], [0, 2, -2, 0], [-1, 0, 1, 2]])


def softmax(logits):
    powers = np.exp(logits - logits.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def numpy_api():
    return FunctionApi(lambda x: softmax(x.reshape(len(x), -1) @ WEIGHTS.numpy().T), SPEC)


def white_box():
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 3, bias=False))
    net[1].weight.data = WEIGHTS.clone()
    return ModuleApi(net, SPEC)


def student(images):
    """Agrees with the API about bright first pixels and about nothing else."""
    return torch.cat([2 * images.flatten(1)[:, :1], torch.full((len(images), 1), 1.0), images.flatten(1)[:, 1:2]], 1)


def by_hand(x, targets, agree=None):
    """eq:adaptive, image by image and in NumPy."""
    probs = softmax(x.flatten(1).numpy() @ WEIGHTS.numpy().T)
    own = softmax(student(x).numpy())
    values = []
    for i, target in enumerate(targets):
        value = -np.log(probs[i, target])
        if agree is not None and agree[i]:
            value -= 0.5 * np.sum(probs[i] * np.log(probs[i] / own[i]))
        values.append(value)
    return torch.tensor(values, dtype=torch.float64)


def test_without_a_student_it_is_the_cross_entropy_at_images_and_at_probes(rng):
    targets, x = torch.tensor([0, 1, 2, 1]), torch.rand(4, 1, 2, 2, generator=rng)
    here = RecoveryObjective(numpy_api(), targets).at(x)
    assert torch.allclose(here.value.double(), by_hand(x, targets), atol=1e-6)
    assert torch.allclose(here.probs, torch.tensor(softmax(x.flatten(1).numpy() @ WEIGHTS.numpy().T)))
    probes = torch.rand(5, 4, 1, 2, 2, generator=rng)
    expected = torch.stack([by_hand(probe, targets) for probe in probes])
    assert torch.allclose(here(probes).double(), expected, atol=1e-6)


def test_the_boundary_term_moves_with_the_probe_while_its_indicator_stays_at_x(rng):
    targets, x = torch.tensor([0, 1, 2, 1, 0, 2]), torch.rand(6, 1, 2, 2, generator=rng)
    x[0], x[1] = (
        torch.tensor([[[1.0, 0], [0, 0]]]),
        torch.tensor([[[0.0, 0], [1, 1]]]),
    )  # both say a; one of them says c
    api_says = (x.flatten(1) @ WEIGHTS.T).argmax(1)
    agree = api_says == student(x).argmax(1)
    assert agree[0]
    assert not agree[1]
    here = RecoveryObjective(numpy_api(), targets, student=student, weight=0.5).at(x)
    assert here.agree is not None
    assert torch.equal(here.agree, agree)
    assert torch.allclose(here.value.double(), by_hand(x, targets, agree), atol=1e-5)
    probes = torch.rand(7, 6, 1, 2, 2, generator=rng)  # far enough for the indicator to flip, were it not held
    flipped = (probes.flatten(2) @ WEIGHTS.T).argmax(2) == torch.stack([student(p).argmax(1) for p in probes])
    assert (flipped != agree).any()
    expected = torch.stack([by_hand(probe, targets, agree) for probe in probes])
    assert torch.allclose(here(probes).double(), expected, atol=1e-5)


def test_a_subset_is_the_same_objective_of_fewer_images(rng):
    targets, x = torch.tensor([0, 1, 2, 1]), torch.rand(4, 1, 2, 2, generator=rng)
    here = RecoveryObjective(numpy_api(), targets, student=student).at(x)
    rows = torch.tensor([3, 0])
    probes = torch.rand(2, 4, 1, 2, 2, generator=rng)
    assert torch.equal(here.of(rows)(probes[:, rows]), here(probes)[:, rows])
    assert torch.equal(here.of(rows).value, here.value[rows])


def test_exact_gradients_are_those_of_central_differences(rng):
    targets, x = torch.tensor([0, 1, 2]), torch.rand(3, 1, 2, 2, generator=rng) * 0.8 + 0.1
    here = RecoveryObjective(white_box(), targets, student=student, weight=0.5).at(x, exact=True)
    shifts = 3e-3 * torch.eye(4).view(4, 1, 1, 2, 2)
    slopes = (here(x + shifts) - here(x - shifts)) / 6e-3  # (4, 3)
    assert torch.allclose(here.gradient.flatten(1), slopes.T, rtol=0.02, atol=1e-3)


def test_exact_gradients_need_a_white_box(rng):
    with pytest.raises(ConfigError, match="toy: exact gradients need a white box"):
        RecoveryObjective(numpy_api(), torch.tensor([0])).at(torch.rand(1, 1, 2, 2, generator=rng), exact=True)


def test_a_rounded_zero_costs_a_finite_step_below_the_first_unit():
    spec = SPEC.with_changes(classes=("a", "b", "c", "d"))
    answers = np.array([[0.9991, 0.0004, 0.0005, 0.0], [0.9979, 0.0012, 0.0009, 0.0]])
    api = Rounded(FunctionApi(lambda x: answers[: len(x)], spec), 3)
    values = RecoveryObjective(api, torch.tensor([1, 1])).at(torch.zeros(2, 1, 2, 2)).value
    # rounded to nothing: between 0 and 0.0005, so 0.00025; rounded to 0.001
    assert torch.allclose(values, -torch.tensor([0.00025, 0.001]).log(), atol=1e-4)
