"""Small APIs that compute in NumPy, so that no autograd graph can leak; not a test itself."""

import numpy as np

from dfml.apis.blackbox import ApiSpec
from dfml.apis.local.function import FunctionApi
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
