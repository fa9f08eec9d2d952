"""DFME and MAZE: the losses by closed form, both sides of the game, and a clone of a function that is known."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from dfml.apis.blackbox import ApiSpec
from dfml.apis.degrade import Quantised
from dfml.apis.local.function import FunctionApi
from dfml.errors import ConfigError
from dfml.losses import distillation_kl, divergence, logit_distance, recovered_logits
from dfml.nets import NetSpec
from dfml.nets.functional import Net
from dfml.recovery.choice import recover
from dfml.recovery.extraction import ExtractionConfig, extract
from dfml.recovery.inversion import RecoveryConfig
from dfml.rng import stream

SMALL = {"rounds": 6, "batch": 16, "filters": 8, "latent": 16}
NET = Net(NetSpec(way=3, size=16, width=8))
ASLEEP = 1e-12


class Halves:
    """Three classes, by where an image is brightest; counts what it is asked."""

    def __init__(self):
        self.spec = ApiSpec(name="halves", classes=("left", "right", "top"), image=(3, 16, 16))
        self.api, self.asked = FunctionApi(self.answer, self.spec), 0

    def answer(self, images):
        grey = images.mean(1)
        left, right, top, bottom = grey[:, :, :8], grey[:, :, 8:], grey[:, :8], grey[:, 8:]
        slopes = [a.mean((1, 2)) - b.mean((1, 2)) for a, b in ((left, right), (right, left), (top, bottom))]
        scores = np.exp(100 * np.stack(slopes, 1))
        return scores / scores.sum(1, keepdims=True)

    def __call__(self, images):
        self.asked += len(images)
        return self.api(images)


def game(kind, api=None, seed=0, **settings):
    """An extraction, and how far clone and API were apart in each round."""
    distances = []
    made = extract(
        api or Halves(),
        NET,
        NET.init(stream(1)),
        ExtractionConfig(game=kind, **SMALL | settings),
        rng=stream(seed, "game"),
        on_round=lambda number, distance, agreement, queries: distances.append(distance),
    )
    return made, distances


def test_recovered_logits_are_logits_of_the_answer_with_mean_zero(rng):
    probs = torch.randn(5, 4, generator=rng).softmax(1)
    logits = recovered_logits(probs)
    assert torch.allclose(logits.softmax(1), probs)
    assert torch.allclose(logits.mean(1), torch.zeros(5), atol=1e-6)
    assert torch.isfinite(recovered_logits(torch.eye(4))).all()


def test_the_distances_are_zero_where_they_agree_and_those_of_their_formulas_elsewhere(rng):
    logits = torch.randn(5, 4, generator=rng)
    centred = logits - logits.mean(1, keepdim=True)
    assert torch.allclose(logit_distance(centred, logits.softmax(1)), torch.zeros(5), atol=1e-6)
    assert torch.allclose(logit_distance(centred + 2, logits.softmax(1)), torch.full((5,), 2.0), atol=1e-5)
    other = torch.randn(5, 4, generator=rng)
    assert torch.allclose(divergence(other, logits.softmax(1)).mean(), distillation_kl(other, logits.softmax(1)))


@pytest.mark.parametrize(
    ("kind", "queries", "images"),
    # a round of DFME asks about the generator's batch, its probes and each batch of the clone; MAZE's clone takes the
    # generator's batch as its first
    [("dfme", 6 * 16 * (1 + 2 + 3), 6 * 16 * (1 + 3)), ("maze", 6 * 16 * (1 + 2 + 2), 6 * 16 * 3)],
)
def test_the_price_is_that_of_the_closed_form(kind, queries, images):
    api = Halves()
    made, _ = game(kind, api, directions=2, clone_steps=3)
    config = ExtractionConfig(game=kind, **SMALL, directions=2, clone_steps=3)
    assert api.asked == made.queries == config.queries == queries
    assert len(made.images) == len(made.probs) == config.images == images
    assert torch.allclose(api(made.images), made.probs)


@pytest.mark.parametrize("kind", ["dfme", "maze"])
def test_the_generator_drives_them_apart_and_the_clone_brings_them_together(kind):
    """Each side of the game with the other asleep."""
    rate = {"dfme": 1e-3, "maze": 0.01}[kind]
    sides = {"rounds": 10, "directions": 8, "clone_steps": 4, "replay_steps": 0}
    _, apart = game(kind, clone_lr=ASLEEP, generator_lr=rate, **sides)
    _, together = game(kind, clone_lr=0.03, generator_lr=ASLEEP, **sides)
    assert np.mean(apart[-3:]) > 1.3 * apart[0]
    assert np.mean(together[-3:]) < 0.7 * together[0]


@pytest.mark.parametrize("kind", ["dfme", "maze"])
def test_the_clone_answers_as_its_api_does_on_images_it_never_saw(kind):
    api = Halves()
    made, _ = game(kind, api, rounds=20, batch=32, generator_lr={"dfme": 1e-3, "maze": 0.01}[kind], replay_steps=3)
    images = F.interpolate(torch.rand(200, 3, 4, 4, generator=stream(9)), (16, 16))  # chequered, as it never painted
    truth = api(images).argmax(1)
    agreement = (NET(made.clone, images).argmax(1) == truth).float().mean().item()
    untrained = (NET(NET.init(stream(1)), images).argmax(1) == truth).float().mean().item()
    most_common = truth.bincount().max().item() / len(truth)
    assert agreement > max(untrained, most_common) + 0.15


def test_replay_costs_nothing_and_changes_the_clone():
    without, much = (game("maze", replay_steps=steps)[0] for steps in (0, 5))
    assert without.queries == much.queries
    assert not torch.equal(without.clone["head.weight"], much.clone["head.weight"])


def test_the_same_stream_asks_the_same_questions():
    one, again, other = (game("dfme", seed=seed)[0] for seed in (0, 0, 1))
    assert torch.equal(one.images, again.images)
    assert torch.equal(one.clone["head.weight"], again.clone["head.weight"])
    assert not torch.equal(one.images, other.images)


def test_through_8_bit_images_what_is_kept_is_what_arrived():
    made, _ = game("dfme", Quantised(Halves()), radius=0.5)
    assert torch.equal((made.images * 255).round() / 255, made.images)


@pytest.mark.parametrize("kind", ["dfme", "maze"])
def test_a_recovered_set_is_the_best_of_what_was_asked(kind):
    api = Halves()
    extraction = ExtractionConfig(game=kind, **SMALL)
    config = RecoveryConfig(strategy="extraction", extraction=extraction, images_per_class=4)
    found = recover(api, config, rng=stream(0), size=16)
    assert api.asked == found.queries == config.queries(3) == extraction.queries
    assert found.targets.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert torch.allclose(api(found.images), found.probs)
    everything = extract(api, net := Net(NetSpec(way=3, size=16)), net.init(rng := stream(0)), extraction, rng=rng)
    for target in range(3):
        best = everything.probs[:, target].sort(descending=True).values[:4]
        assert torch.allclose(found.probs[found.targets == target][:, target], best)


def test_settings_that_cannot_work_are_refused_by_name():
    with pytest.raises(ConfigError, match=r"extraction\.batch must be 2 or more"):
        ExtractionConfig(batch=1)
    with pytest.raises(ConfigError, match=r"extraction\.rounds must be above 0"):
        ExtractionConfig(rounds=0)
    with pytest.raises(ConfigError, match=r"asks about 12 images cannot give 30 of each class"):
        RecoveryConfig(strategy="extraction", extraction=ExtractionConfig(rounds=1, batch=2))
