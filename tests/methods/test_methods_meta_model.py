"""The meta model's shape, where the user left it open."""

import pytest

from dfml.apis.blackbox import ApiSpec
from dfml.methods.meta_model import MetaModelConfig


def api(way, size, channels=3):
    return ApiSpec(name="a", classes=tuple(map(str, range(way))), image=(channels, size, size))


@pytest.mark.parametrize(
    ("specs", "shape"),
    [
        ([api(5, 32)] * 3, (5, 32, 3)),
        ([api(1000, 224)] * 2 + [api(10, 32)], (5, 32, 3)),
        ([api(20, 84), api(20, 84)], (20, 32, 3)),
        ([api(3, 8, channels=1)], (3, 16, 1)),
        ([api(5, 28), api(7, 28), api(7, 20)], (7, 28, 3)),
    ],
)
def test_it_follows_the_apis_as_far_as_that_suits_a_few_shot_task(specs, shape):
    fitted = MetaModelConfig().fitted(specs)
    assert (fitted.way, fitted.size, fitted.channels) == shape


def test_what_was_asked_for_stays():
    fitted = MetaModelConfig(way=100, size=84, channels=1).fitted([api(1000, 224)])
    assert (fitted.way, fitted.size, fitted.channels) == (100, 84, 1)
