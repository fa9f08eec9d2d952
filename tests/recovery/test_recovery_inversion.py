"""Recovery as a whole: what it costs, what it keeps, where boundary sets land, and that it can be repeated."""

import pytest
import torch
from torch import nn

from dfml.apis.blackbox import ApiSpec
from dfml.apis.degrade import Quantised, Rounded
from dfml.apis.local.function import FunctionApi
from dfml.apis.local.module import ModuleApi
from dfml.errors import ConfigError, Unreachable
from dfml.recovery.inversion import EFFICIENT, ESTIMATORS, RecoveryConfig, invert
from dfml.rng import stream

SPEC = ApiSpec(name="colours", classes=("red", "green", "blue"), image=(3, 8, 8))
SMALL = RecoveryConfig(images_per_class=2, steps=3, directions=5, latent=8, filters=4)


def colours():
    """Which channel is the brightest: an API whose classes anyone can recover."""
    net = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 3, bias=False))
    net[2].weight.data = 12 * torch.eye(3)
    return ModuleApi(net, SPEC)


class Recording:
    """Keeps every image it passes on, and fails at one of its calls if told so."""

    def __init__(self, api, fail_at=None):
        self.api, self.spec, self.fail_at, self.calls = api, api.spec, fail_at, []

    def __call__(self, images):
        if self.fail_at == len(self.calls):
            raise Unreachable("the line is dead")
        self.calls.append(images.clone())
        return self.api(images)

    @property
    def images(self):
        return torch.cat(self.calls)


@pytest.mark.parametrize("estimator", [*ESTIMATORS, "exact"])
def test_queries_equal_the_closed_form_and_what_was_sent(estimator):
    config = RecoveryConfig(**{**vars(SMALL), "estimator": estimator})
    per_direction = {"antithetic": 2, "exact": 0}.get(estimator, 1)
    expected = 3 * (5 * per_direction + 1) * 2 * 3
    assert config.queries(way=3) == expected
    api = Recording(colours())
    if estimator == "exact":
        assert invert(api.api, config, rng=stream(0)).queries == expected
    else:
        assert invert(api, config, rng=stream(0)).queries == expected == len(api.images)


def test_the_paper_pays_three_million():
    assert RecoveryConfig().queries(way=5) == 200 * 101 * 150 == 3_030_000


def test_targets_are_balanced_and_the_answers_are_those_to_exactly_these_images():
    api = colours()
    found = invert(api, SMALL, rng=stream(1))
    assert found.targets.bincount().tolist() == [2, 2, 2]
    assert found.images.shape == (6, 3, 8, 8)
    assert torch.allclose(found.probs, api(found.images), atol=1e-6)
    assert found.classes == (("colours", "red"), ("colours", "green"), ("colours", "blue"))


def test_every_image_is_the_best_of_its_iterates():
    """The base queries are the first call of each step; the smallest true objective among them must have been kept."""
    api = Recording(colours())
    found = invert(api, RecoveryConfig(**{**vars(SMALL), "steps": 10, "lr": 0.05}), rng=stream(2))
    bases = api.calls[::2]
    losses = torch.stack([-api.api(x).gather(1, found.targets[:, None]).squeeze(1).log() for x in bases])
    winners = losses.argmin(0)
    assert len(winners.unique()) > 1  # else the test shows nothing
    assert torch.equal(found.images, torch.stack(bases)[winners, torch.arange(6)])


@pytest.mark.parametrize("estimator", [*ESTIMATORS, "exact"])
def test_colours_are_recovered(estimator):
    config = RecoveryConfig(
        images_per_class=3, steps=40, directions=20, radius=0.1, resolution=2, lr=0.01, estimator=estimator, latent=16,
        filters=8,
    )  # fmt: skip
    found = invert(colours(), config, rng=stream(0))
    assert found.reached == 1.0


def test_colours_are_recovered_through_8_bits_and_3_decimals_for_a_hundredth_of_the_price():
    api = Recording(Rounded(Quantised(colours()), 3))
    config = RecoveryConfig(**{**vars(EFFICIENT), "images_per_class": 3, "latent": 16, "filters": 8})
    found = invert(api, config, rng=stream(0))
    assert found.reached == 1.0
    assert found.queries == len(api.images) <= config.queries(way=3) == 200 * 9
    sent = api.images * 255
    assert torch.allclose(sent, sent.round(), atol=1e-3)  # nothing is sent that an 8-bit file could not hold


def test_early_stop_asks_nothing_more_about_images_that_have_arrived():
    api = Recording(colours())
    steps = []
    config = RecoveryConfig(
        images_per_class=4, steps=60, directions=10, radius=0.1, lr=0.01, estimator="subspace", resolution=2,
        early_stop=True, confidence=0.6, latent=16, filters=8,
    )  # fmt: skip
    found = invert(api, config, rng=stream(0), on_step=lambda *told: steps.append(told))
    assert found.reached == 1.0
    assert found.probs.gather(1, found.targets[:, None]).min() >= 0.6
    assert found.queries == len(api.images) == steps[-1][3] < config.queries(way=3)
    asked = [len(x) for x in api.calls]
    assert asked[0] == 12  # all at first
    assert asked[-1] < 12  # only some at last
    assert [step for step, *_ in steps] == list(range(len(steps)))
    assert steps[-1][2] == 1.0


def test_the_limit_ends_recovery_within_its_promise():
    for early_stop, expected in ((False, 12), (True, 13)):
        config = RecoveryConfig(**{**vars(SMALL), "steps": 50, "limit": 13, "early_stop": early_stop})
        api = Recording(colours())
        assert config.queries(way=3) == expected * 6
        assert invert(api, config, rng=stream(0)).queries == len(api.images) <= expected * 6
    with pytest.raises(ConfigError, match="one step, 6 queries an image, not 5"):
        RecoveryConfig(**{**vars(SMALL), "limit": 5})


def test_a_repeat_after_a_failure_asks_the_same_questions():
    whole, broken, again = Recording(colours()), Recording(colours(), fail_at=4), Recording(colours())
    first = invert(whole, SMALL, rng=stream(3))
    with pytest.raises(Unreachable, match="the line is dead"):
        invert(broken, SMALL, rng=stream(3))
    second = invert(again, SMALL, rng=stream(3))
    assert torch.equal(broken.images, whole.images[: len(broken.images)])
    assert torch.equal(again.images, whole.images)
    assert torch.equal(first.images, second.images)
    assert not torch.equal(first.images, invert(colours(), SMALL, rng=stream(4)).images)


def test_images_may_have_another_size_than_the_api_takes():
    assert invert(colours(), SMALL, rng=stream(0), size=12).images.shape == (6, 3, 12, 12)
    odd = ModuleApi(colours()._net.net, SPEC.with_changes(image=(3, 10, 7)))
    assert invert(odd, SMALL, rng=stream(0)).images.shape == (6, 3, 12, 12)


def line(offset, steepness=8.0):
    """Two classes, divided by the line a + b = offset through images of two numbers, a the mean left and b right."""

    def logits(images):
        a, b = images[..., :2].mean((1, 2, 3)), images[..., 2:].mean((1, 2, 3))
        score = steepness * (a + b - offset)
        return torch.stack([-score / 2, score / 2], 1)

    return logits


LINE = ApiSpec(name="line", classes=("below", "above"), image=(1, 4, 4))
API_AT, STUDENT_AT = 1.0, 1.4
"""where the boundaries are. Images that the API calls above and the student below lie between them"""


def recovered_above(student, **changes):
    """a + b of the images recovered for `above`, and the objective of each as eq:adaptive writes it."""
    config = RecoveryConfig(
        images_per_class=8, steps=60, directions=8, radius=0.05, lr=0.02, estimator="subspace", resolution=2,
        boundary=1.0, latent=16, filters=8, **changes,
    )  # fmt: skip
    api = FunctionApi(lambda x: line(API_AT)(torch.from_numpy(x)).softmax(1).numpy(), LINE)
    found = invert(api, config, rng=stream(0), student=student)
    return (found.images[..., :2].mean((1, 2, 3)) + found.images[..., 2:].mean((1, 2, 3)))[found.targets == 1]


def eq_adaptive(place):
    """CE - [same side] KL, for the target `above`, of images with a + b = `place`."""
    p, own = (torch.sigmoid(8 * (place - offset)) for offset in (API_AT, STUDENT_AT))
    divergence = p * (p / own).log() + (1 - p) * ((1 - p) / (1 - own)).log()
    same_side = (place > API_AT) == (place > STUDENT_AT)
    return -p.log() - same_side * divergence


def test_plain_recovery_goes_to_where_both_are_sure():
    assert (recovered_above(None) > STUDENT_AT + 0.1).all()


def test_boundary_sets_land_where_the_equation_is_smallest():
    """That is right behind the student's boundary: where it is crossed, the indicator turns the reward for KL on."""
    places = torch.linspace(API_AT, 2, 1001)
    smallest = places[eq_adaptive(places).argmin()].item()
    assert smallest == pytest.approx(STUDENT_AT, abs=0.01)
    near = recovered_above(line(STUDENT_AT), prefer_between=False)
    assert ((near - smallest).abs() < 0.05).all()
    assert (eq_adaptive(near) < eq_adaptive(recovered_above(None)) - 0.1).all()


def test_boundary_sets_lie_between_the_boundaries_where_that_is_preferred():
    between = recovered_above(line(STUDENT_AT), prefer_between=True)
    assert ((between > API_AT) & (between < STUDENT_AT)).all()


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ({"steps": 0}, "recovery.steps must be above 0, not 0"),
        ({"radius": -1.0}, "recovery.radius must be above 0"),
        ({"boundary": -0.1}, "recovery.boundary must be 0 or more"),
        ({"confidence": 1.0}, "recovery.confidence is a probability below 1"),
        ({"estimator": "spheer"}, "unknown estimator 'spheer'; choose one of sphere, antithetic"),
    ],
)
def test_wrong_settings_are_refused(setting, complaint):
    with pytest.raises(ConfigError, match=complaint):
        RecoveryConfig(**setting)
