"""Expected answers as an embedding."""

import numpy as np
import torch

from dfml.nets.expected_answers import ExpectedAnswers


def test_every_feature_and_every_free_answer_count_alike(rng):
    """Against the formula written out in NumPy: 3 APIs of 4 classes on 5 features."""
    weight, bias = torch.randn(12, 5, generator=rng), torch.randn(12, generator=rng)
    features = torch.randn(7, 5, generator=rng)
    expected = ExpectedAnswers.centred_on(weight, bias, features, apis=3)
    seen = features.double().numpy()
    scores = np.exp(seen @ weight.double().numpy().T + bias.double().numpy()).reshape(7, 3, 4)
    answers = (scores / scores.sum(2, keepdims=True)).reshape(7, 12)
    halves = [part - part.mean(0) for part in (seen, answers)]
    halves = [part / np.linalg.norm(part, axis=1, keepdims=True) for part in halves]
    wanted = np.hstack([halves[0], np.sqrt(3 * (4 - 1) / 5) * halves[1]])
    assert np.allclose(expected(features).numpy(), wanted, atol=1e-5)


def test_a_class_that_an_api_lacks_never_shows(rng):
    bias = torch.tensor([0.0, 0.0, -1e4, 0.0, 0.0, 0.0])
    expected = ExpectedAnswers.centred_on(
        torch.randn(6, 5, generator=rng), bias, torch.randn(9, 5, generator=rng), apis=2
    )
    embedded = expected(torch.randn(4, 5, generator=rng))[:, 5:]
    assert bool((embedded[:, 2] == 0).all())
    assert bool((embedded[:, [0, 1, 3, 4, 5]] != 0).all())
