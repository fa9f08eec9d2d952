"""Small APIs that compute in NumPy, so that no autograd graph can leak, and small settings that learn in seconds."""

import numpy as np
import pytest

from dfml.apis.blackbox import ApiSpec
from dfml.apis.function import FunctionApi
from dfml.errors import Unreachable


def colour_api(name, way=3, size=16, seed=0):
    """A softmax over random weights of the mean colours of the image's quarters."""
    weights = np.random.default_rng(seed).normal(size=(12, way)) * 12

    def answer(images):
        n, c, h, w = images.shape
        quarters = images.reshape(n, c, 2, h // 2, 2, w // 2).mean((3, 5)).reshape(n, -1)
        scores = (quarters - 0.5) @ weights
        scores = np.exp(scores - scores.max(1, keepdims=True))
        return scores / scores.sum(1, keepdims=True)

    classes = tuple(f"class {k}" for k in range(way))
    return FunctionApi(answer, ApiSpec(name=name, classes=classes, image=(3, size, size)))


class Flaky:
    """An API that can be switched off, and counts the images it answers."""

    def __init__(self, api):
        self.api, self.spec, self.answered, self.up = api, api.spec, 0, True

    def __call__(self, images):
        if not self.up:
            raise Unreachable(f"{self.spec.name} does not answer")
        self.answered += len(images)
        return self.api(images)


@pytest.fixture
def apis():
    return [Flaky(colour_api(f"api-{i}", seed=i)) for i in range(2)]


@pytest.fixture
def small():
    """Settings under which one recovered set costs 5 * (3 + 1) * 3 * 8 = 480 queries."""
    return [
        "recovery.steps=5",
        "recovery.directions=3",
        "recovery.estimator=sphere",
        "recovery.images_per_class=8",
        "recovery.filters=4",
        "recovery.latent=8",
        "recovery.early_stop=false",
        "recovery.limit=1000",
        "memory.require_agreement=false",
        "net.width=4",
        "replay.shot=2",
        "replay.query=3",
        "replay.batch=2",
        "replay.inner_steps=2",
        "distil.inner_steps=2",
    ]
