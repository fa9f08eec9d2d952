"""Expected answers as an embedding."""

import numpy as np
import pytest
import torch

from dfml.adaptation.heads import best_head
from dfml.nets.expected_answers import ExpectedAnswers, weight_of_answers


@pytest.mark.parametrize("r", [None, 0.7])
def test_the_embedding_is_the_formula(rng, r):
    """Against NumPy: 3 APIs of 4 classes on 5 features, by the rule of files without a weight, and with one."""
    weight, bias = torch.randn(12, 5, generator=rng), torch.randn(12, generator=rng)
    features = torch.randn(7, 5, generator=rng)
    if r is None:
        answers = (features @ weight.T + bias).view(-1, 3, 4).softmax(-1)
        expected = ExpectedAnswers(weight, bias, features.mean(0), answers.mean(0))
    else:
        expected = ExpectedAnswers.centred_on(weight, bias, [features], apis=3, answer_weight=r)
    seen = features.double().numpy()
    scores = np.exp(seen @ weight.double().numpy().T + bias.double().numpy()).reshape(7, 3, 4)
    answers = (scores / scores.sum(2, keepdims=True)).reshape(7, 12)
    answers = answers if r is None else np.sqrt(answers)
    halves = [part - part.mean(0) for part in (seen, answers)]
    halves = [part / np.linalg.norm(part, axis=1, keepdims=True) for part in halves]
    wanted = np.hstack([halves[0], (r or np.sqrt(3 * (4 - 1) / 5)) * halves[1]])
    assert np.allclose(expected([features]).numpy(), wanted, atol=1e-5)


def test_answers_that_were_taught_by_direction_are_compared_by_it(rng):
    """Against NumPy: 2 APIs, one of 4 classes and one of 3, on 5 features."""
    weight, bias = torch.randn(8, 5, generator=rng), torch.randn(8, generator=rng)
    bias[7] = -1e4
    features = torch.randn(9, 5, generator=rng)
    expected = ExpectedAnswers.centred_on(weight, bias, [features], apis=2, answer_weight=0.5, directions=True)
    scores = np.exp(features.double().numpy() @ weight.double().numpy().T + bias.double().numpy())
    halves = []
    for columns in (slice(0, 4), slice(4, 7)):
        answers = scores[:, columns] / scores[:, columns].sum(1, keepdims=True)
        logs = np.log(1 + 1000 * answers)
        spread = logs - logs.mean(1, keepdims=True)
        directions = spread / np.linalg.norm(spread, axis=1, keepdims=True)
        halves.append(directions - directions.mean(0))
    wanted = np.hstack(halves)
    wanted = 0.5 * wanted / np.linalg.norm(wanted, axis=1, keepdims=True)
    embedded = expected([features])[:, 5:].numpy()
    assert np.allclose(embedded[:, :7], wanted, atol=1e-4)
    assert bool((embedded[:, 7] == 0).all())
    again = ExpectedAnswers(**expected.state_dict())
    assert torch.equal(again([features]), expected([features]))


@pytest.mark.parametrize(
    ("gain", "apis", "way", "directions", "r"),
    [
        (0.7, 100, 5, False, 1.5),  # many answers, well foreseen: more than the features, whatever their number
        (0.7, 10, 5, False, (40 / 128) ** 0.5),  # few answers
        (0.1, 6, 1000, True, 0.2**0.5),  # many that are hardly foreseen
        (0.9, 6, 1000, True, 1.0),
        (-0.2, 6, 1000, True, 0.0),
    ],
)
def test_answers_weigh_what_is_foreseen_of_them(gain, apis, way, directions, r):
    weight = weight_of_answers(torch.full((apis,), gain), torch.full((apis,), way), directions=directions)
    assert weight == pytest.approx(r)


def test_files_without_a_weight_compare_answers_of_few_classes_only(rng):
    def before(way):
        return ExpectedAnswers(
            torch.randn(2 * way, 5, generator=rng), torch.zeros(2 * way), torch.zeros(5), torch.full((2, way), 1 / way)
        )

    assert [best_head(e) for e in (None, before(5), before(1000))] == ["prototype", "answers", "prototype"]
    weighed = ExpectedAnswers.centred_on(
        torch.randn(2000, 5, generator=rng), torch.zeros(2000), [torch.randn(9, 5, generator=rng)], apis=2
    )
    assert best_head(weighed) == "answers"


def test_a_class_that_an_api_lacks_never_shows(rng):
    bias = torch.tensor([0.0, 0.0, -1e4, 0.0, 0.0, 0.0])
    expected = ExpectedAnswers.centred_on(
        torch.randn(6, 5, generator=rng), bias, [torch.randn(9, 5, generator=rng)], apis=2
    )
    embedded = expected([torch.randn(4, 5, generator=rng)])[:, 5:]
    assert bool((embedded[:, 2] == 0).all())
    assert bool((embedded[:, [0, 1, 3, 4, 5]] != 0).all())
