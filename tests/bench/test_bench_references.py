"""Rows that need the APIs or real images: predictors, MAML on real data, and the distance to real images."""

import numpy as np
import pytest
import torch

from dfml.apis.blackbox import ApiSpec
from dfml.apis.local.function import FunctionApi
from dfml.bench.cells import Cell
from dfml.bench.predictors import api_features, best_api
from dfml.bench.privacy import IMAGES, images_of, nearest_pixels, nearest_ssim, ssim
from dfml.bench.real_maml import RealMamlConfig, meta_train, plan
from dfml.config import override
from dfml.episode import Episode
from dfml.errors import ConfigError
from dfml.evaluation.metatest import open_parts
from dfml.learning import learn
from dfml.nets.functional import Net
from dfml.rng import stream


def brightness_api(name, accuracy, *, answer=None):
    """Three classes by mean brightness, or the same answer always."""

    def probabilities(images):
        level = images.reshape(len(images), -1).mean(1)
        scores = -40 * (level[:, None] - np.array([[0.2, 0.5, 0.8]])) ** 2
        chosen = np.exp(scores) if answer is None else np.tile(np.eye(3)[answer], (len(images), 1))
        return chosen / chosen.sum(1, keepdims=True)

    return FunctionApi(probabilities, ApiSpec(name=name, classes=("a", "b", "c"), image=(3, 8, 8), accuracy=accuracy))


@pytest.fixture
def episode():
    """Two classes that differ in brightness."""
    levels = torch.tensor([0.25, 0.75])
    labels = torch.arange(2)
    query_labels = labels.repeat_interleave(4)
    rng = stream(0, "episode")
    noise = torch.rand(8, 3, 8, 8, generator=rng) * 0.1
    support = levels.view(-1, 1, 1, 1).expand(2, 3, 8, 8)
    return Episode(support, labels, levels[query_labels].view(-1, 1, 1, 1) + noise, query_labels, ("dark", "light"))


def test_the_best_api_answers_itself(episode):
    apis = [brightness_api("good", 0.9, answer=2), brightness_api("bad", 0.4, answer=0)]
    assert best_api(apis)(episode).argmax(1).tolist() == [2] * 8
    with pytest.raises(ConfigError, match="report an accuracy"):
        best_api([brightness_api("silent", None)])


def test_answers_are_features_for_classes_no_api_knows(episode):
    """An API that sees brightness tells them apart; beside one that never changes its answer as well."""
    apis = [brightness_api("sees", 0.9), brightness_api("blind", 0.9, answer=1)]
    assert api_features(apis)(episode).argmax(1).tolist() == episode.query_labels.tolist()
    assert api_features(apis[:1])(episode).shape == (8, 2)


def test_an_image_of_many_tasks_is_judged_once(episode):
    sees, judged = brightness_api("sees", 0.9), []

    def counted(images):
        judged.append(len(images))
        return sees(torch.as_tensor(images)).numpy()

    predict = api_features([FunctionApi(counted, sees.spec)])
    first = predict(episode)
    turned = episode._replace(query=episode.query.flip(0), query_labels=episode.query_labels.flip(0))
    assert torch.equal(predict(turned), first.flip(0))
    assert sum(judged) == 2 + 8


def test_real_maml_learns_the_tasks_it_is_given():
    parts = open_parts("glyphs", "train", None)
    small = ["net.width=8", "iterations=30", "replay.batch=2", "replay.shot=1", "replay.query=5"]
    config = plan(override(RealMamlConfig(), [*small, "replay.outer_lr=0.01"]), parts, way=5)
    losses = []
    init = meta_train(config, parts, seed=0, on_step=lambda step, loss, accuracy: losses.append(loss))
    assert sum(losses[-5:]) < sum(losses[:5])
    untrained = meta_train(override(config, ["iterations=0"]), parts, seed=0)
    start = Net(init.net).init(stream(0, "meta-model"))
    assert all(torch.equal(untrained.params[name], start[name]) for name in start), "it begins where Random ends"


def test_real_maml_goes_on_where_it_was_interrupted(tmp_path, monkeypatch):
    monkeypatch.setattr("dfml.bench.real_maml.KEPT_EVERY", 2)
    parts = open_parts("glyphs", "train", None)
    small = ["net.width=4", "iterations=6", "replay.batch=1", "replay.shot=1", "replay.query=2"]
    config = plan(override(RealMamlConfig(), small), parts, way=3)
    kept, made = tmp_path / "checkpoint.safetensors", []

    def interrupted(step, loss, accuracy):
        if step == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        meta_train(config, parts, seed=0, checkpoint=kept, on_step=interrupted)
    again = meta_train(config, parts, seed=0, checkpoint=kept, on_step=lambda step, *_: made.append(step))
    at_once = meta_train(config, parts, seed=0)
    assert made == [4, 5], "the four steps before the checkpoint are not made again"
    assert all(torch.equal(again.params[name], p) for name, p in at_once.params.items())


def windows(image):
    """All 7 x 7 windows of a 2-d array, one a row."""
    return np.lib.stride_tricks.sliding_window_view(image, (7, 7)).reshape(-1, 49)


def test_ssim_is_that_of_its_definition():
    """Window by window in float64, with NumPy's own covariance."""
    rng = np.random.default_rng(0)
    a, b = rng.random((2, 3, 12, 10))
    values = []
    for one, other in zip(a, b, strict=True):
        for x, y in zip(windows(one), windows(other), strict=True):
            (var_x, cov), (_, var_y) = np.cov(x, y)
            likeness = (2 * x.mean() * y.mean() + 1e-4) * (2 * cov + 9e-4)
            values.append(likeness / ((x.mean() ** 2 + y.mean() ** 2 + 1e-4) * (var_x + var_y + 9e-4)))
    got = ssim(torch.from_numpy(a), torch.from_numpy(b)[None])
    assert got.item() == pytest.approx(np.mean(values), abs=1e-9)
    assert ssim(torch.from_numpy(a), torch.from_numpy(a)[None]).item() == pytest.approx(1.0)


def test_the_nearest_image_is_found_by_either_measure(rng):
    among = torch.rand(20, 3, 16, 16, generator=rng)
    wanted = torch.tensor([7, 3])
    images = (among[wanted] + 0.01).clamp(0, 1)
    pixels, structure = nearest_pixels(images, among), nearest_ssim(images, among)
    assert pixels.place.tolist() == structure.place.tolist() == wanted.tolist()
    expected = (images - among[wanted]).square().mean((1, 2, 3)).sqrt()
    assert torch.allclose(pixels.value, expected, atol=1e-3)


@pytest.mark.parametrize("pictures", ["mixed", "painted"])
def test_what_a_chorus_learned_from_is_what_its_api_was_asked_about(tmp_path, pictures):
    seen = []

    def answer(images):
        seen.append(np.round(images * 255).astype(np.uint8))
        return np.full((len(images), 3), 1 / 3)

    api = FunctionApi(answer, ApiSpec(name="one", classes=("a", "b", "c"), image=(3, 16, 16)))
    settings = [f"queries={IMAGES}", f"pictures={pictures}", "distil.steps=2", "net.width=4"]
    learn([api], tmp_path / "run", settings=settings)
    ((name, images),) = images_of(tmp_path / "run", Cell(row="chorus", method="chorus", apis=()), ["one"])
    asked = {image.tobytes() for image in np.concatenate(seen)}
    assert name == "one"
    assert {image.tobytes() for image in (images * 255).round().to(torch.uint8).numpy()} <= asked
