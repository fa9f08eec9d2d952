"""The pool as a recovery strategy: one query an image, and the best of each class."""

import numpy as np
import pytest
import torch

from dfml.apis.blackbox import ApiSpec
from dfml.apis.local.function import FunctionApi
from dfml.errors import ConfigError
from dfml.recovery.choice import recover
from dfml.recovery.inversion import RecoveryConfig
from dfml.rng import stream


class Brightness:
    """Light or dark, by the mean of the image; counts what it is asked."""

    def __init__(self):
        self.asked = 0
        spec = ApiSpec(name="light", classes=("dark", "light"), image=(3, 16, 16))
        self.api, self.spec = FunctionApi(self._answer, spec), spec

    def _answer(self, x):
        self.asked += len(x)
        light = 1 / (1 + np.exp(-20 * (x.mean((1, 2, 3)) - 0.5)))
        return np.stack([1 - light, light], 1)

    def __call__(self, images):
        return self.api(images)


CONFIG = RecoveryConfig(strategy="pool", pool=200, images_per_class=10)


def test_it_keeps_the_darkest_and_the_lightest_at_one_query_each():
    api = Brightness()
    chosen = recover(api, CONFIG, rng=stream(0), size=16)
    assert chosen.queries == api.asked == CONFIG.queries(2) == 200
    assert chosen.reached == 1.0
    levels = chosen.images.mean((1, 2, 3))
    assert levels[:10].max() < 0.5 < levels[10:].min()
    assert torch.equal(chosen.probs, api(chosen.images))


def test_with_a_student_it_prefers_what_the_student_gets_wrong():
    def student(x):
        """Puts the boundary at 0.6 instead of 0.5."""
        light = 40 * (x.mean((1, 2, 3)) - 0.6)
        return torch.stack([-light, light], 1)

    plain = recover(Brightness(), CONFIG, rng=stream(0), size=16)
    near = recover(
        Brightness(), RecoveryConfig(**{**vars(CONFIG), "boundary": 5.0}), rng=stream(0), size=16, student=student
    )
    distance = lambda chosen: (chosen.images[10:].mean((1, 2, 3)) - 0.55).abs().mean()  # noqa: E731
    assert distance(near) < distance(plain)


def test_a_pool_that_is_too_small_is_refused():
    with pytest.raises(ConfigError, match="a pool of 5 images cannot give 10"):
        recover(Brightness(), RecoveryConfig(strategy="pool", pool=5, images_per_class=10), rng=stream(0), size=16)
