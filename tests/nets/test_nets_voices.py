"""Expected answers as an embedding."""

import numpy as np
import torch

from dfml.nets.voices import Voices


def test_an_api_is_expected_to_answer_the_softmax_of_its_own_head_less_the_mean(rng):
    """Against the formula written out in NumPy: 3 APIs of 4 classes on 5 features."""
    weight, bias = torch.randn(12, 5, generator=rng), torch.randn(12, generator=rng)
    features = torch.randn(7, 5, generator=rng)
    voices = Voices.heard(weight, bias, features, apis=3)
    scores = np.exp(features.double().numpy() @ weight.double().numpy().T + bias.double().numpy()).reshape(7, 3, 4)
    answers = scores / scores.sum(2, keepdims=True)
    assert np.allclose(voices(features).numpy(), (answers - answers.mean(0)).reshape(7, 12), atol=1e-6)


def test_a_class_that_an_api_lacks_never_shows(rng):
    bias = torch.tensor([0.0, 0.0, -1e4, 0.0, 0.0, 0.0])
    voices = Voices.heard(torch.randn(6, 5, generator=rng), bias, torch.randn(9, 5, generator=rng), apis=2)
    embedded = voices(torch.randn(4, 5, generator=rng))
    assert bool((embedded[:, 2] == 0).all())
    assert bool((embedded[:, [0, 1, 3, 4, 5]] != 0).all())
