"""The meta model's shape, where the user left it open."""

import pytest
import torch
import torch.nn.functional as F

from dfml.apis.blackbox import ApiSpec
from dfml.errors import ConfigError
from dfml.methods.meta_model import MetaModelConfig
from dfml.nets.functional import Net
from dfml.rng import stream


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


@pytest.mark.parametrize(("taken", "seen"), [(8, 16), (32, 32), (50, 50), (64, 64), (84, 64), (224, 64)])
def test_it_follows_them_further_where_it_may(taken, seen):
    assert MetaModelConfig(largest=64).fitted([api(5, taken)]).size == seen


def test_what_was_asked_for_stays():
    fitted = MetaModelConfig(way=100, size=84, channels=1).fitted([api(1000, 224)])
    assert (fitted.way, fitted.size, fitted.channels) == (100, 84, 1)


def begun(length):
    config = MetaModelConfig(way=3, size=16, channels=3, width=4, filter_length=length)
    return Net(config.spec), config.begin(0)


def images(n=12):
    return torch.rand(n, 3, 16, 16, generator=stream(1))


def test_learning_begins_as_the_few_shot_literature_does():
    net, params = begun(1.0)
    assert all(torch.equal(params[name], p) for name, p in net.init(stream(0, "meta-model")).items())


def test_no_answer_depends_on_the_length_of_the_filters():
    (net, usual), (_, short) = begun(1.0), begun(0.5)
    torch.testing.assert_close(net(short, images()), net(usual, images()), atol=2e-3, rtol=0)


def test_a_step_turns_a_filter_by_one_over_the_square_of_its_length():
    # The loss does not know the length, so its slope along the filter grows as 1 / length; and so does the angle that
    # a given way is of a circle.
    labels = torch.arange(12) % 3

    def turn(length):
        net, params = begun(length)
        filters = params["blocks.3.conv.weight"].requires_grad_()
        (slope,) = torch.autograd.grad(F.cross_entropy(net(params, images()), labels), [filters])
        return (slope.norm() / filters.norm()).item()

    assert turn(0.5) / turn(1.0) == pytest.approx(4, rel=0.02)


def test_filters_of_no_length_are_refused():
    with pytest.raises(ConfigError, match="filter_length"):
        MetaModelConfig(filter_length=0)
