"""The classifier a user gets: scikit-learn's conventions, independence of the batch, and an ONNX twin."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from dfml.adaptation.classifier import FewShotClassifier
from dfml.adaptation.heads import class_directions, class_means
from dfml.errors import ConfigError
from dfml.initialisation import Initialisation
from dfml.nets import NetSpec
from dfml.nets.expected_answers import ExpectedAnswers
from dfml.nets.functional import Net, normalise
from dfml.nets.sight import looks
from dfml.nets.statistics import batch_statistics, blend, frozen
from dfml.rng import stream

HEADS = ("finetune", "prototype", "prototype+finetune", "answers")


@pytest.fixture
def init():
    """An untrained network, with random heads for four imaginary APIs."""
    spec, rng = NetSpec(width=8, size=16, way=3), stream(0, "expected")
    expected = ExpectedAnswers(
        torch.randn(20, 8, generator=rng), torch.zeros(20), torch.zeros(8), torch.full((4, 5), 0.2)
    )
    return Initialisation(Net(spec).init(stream(0, "init")), spec, expected=expected)


def test_the_weight_of_answers_is_kept(init, task, tmp_path):
    """In files of the initialisation and of the classifier, with the old embedding where there was none."""
    images, labels = task
    old = init.expected
    parts = [*(getattr(old, name) for name in old.TENSORS[:4]), torch.tensor(0.3)]
    weighed = ExpectedAnswers(*parts)
    told = []
    for number, each in enumerate((replace(init, expected=weighed), init)):
        each.save(tmp_path / f"{number}.safetensors")
        loaded = Initialisation.load(tmp_path / f"{number}.safetensors")
        assert loaded.expected.weighed is (number == 0)
        classifier = loaded.adapt(images[::2], labels[::2], head="answers")
        classifier.save(tmp_path / str(number))
        told.append(classifier.predict_proba(images))
        assert np.allclose(FewShotClassifier.load(tmp_path / str(number)).predict_proba(images), told[-1], atol=1e-6)
    assert not np.allclose(told[0], told[1], atol=1e-3)


@pytest.fixture
def task():
    """Three kinds of images that differ in colour."""
    noise = np.random.default_rng(0).random((30, 3, 16, 16), dtype=np.float32)
    labels = np.array(["red", "green", "blue"]).repeat(10)
    tint = np.eye(3, dtype=np.float32).repeat(10, 0)[:, :, None, None]
    return 0.5 * noise + 0.5 * tint, labels


@pytest.mark.parametrize("head", HEADS)
def test_it_learns_names_from_a_few_images(init, task, head):
    images, labels = task
    classifier = init.adapt(images[::2], labels[::2], head=head, lr=0.1)
    assert classifier.classes_.tolist() == ["blue", "green", "red"]
    assert classifier.score(images[1::2], labels[1::2]) > 0.8  # of untrained features; one in three by chance
    proba = classifier.predict_proba(images)
    assert proba.shape == (30, 3)
    assert np.allclose(proba.sum(1), 1, atol=1e-5)


def test_what_only_a_mirror_confuses_is_told_apart_without_one(init, tmp_path):
    """Images that are bright to the left and their mirror images are two classes, or one."""
    noise = np.random.default_rng(0).random((40, 3, 16, 16), dtype=np.float32) * 0.4
    noise[:, :, :, 2:6] += 0.6
    noise[1::2] = noise[1::2, :, :, ::-1]
    labels = np.array(["left", "right"] * 20)
    right = {}
    for mirror in (True, False):
        classifier = init.adapt(noise[:10], labels[:10], head="answers", mirror=mirror)
        classifier.save(tmp_path / str(mirror))
        loaded = FewShotClassifier.load(tmp_path / str(mirror))
        assert np.array_equal(loaded.predict_proba(noise), classifier.predict_proba(noise))
        other = loaded.predict_proba(np.ascontiguousarray(noise[..., ::-1]))
        assert np.allclose(other, loaded.predict_proba(noise), atol=1e-5) is mirror
        right[mirror] = loaded.score(noise[10:], labels[10:])
    assert right[False] > 0.8 > 0.7 > right[True]


@pytest.mark.parametrize("head", HEADS)
def test_a_prediction_does_not_depend_on_the_batch(init, task, head):
    images, labels = task
    classifier = init.adapt(images[::2], labels[::2], head=head)
    together = classifier.predict_proba(images)
    alone = np.concatenate([classifier.predict_proba(image[None]) for image in images])
    assert np.allclose(together, alone, atol=1e-5)


@pytest.mark.parametrize("head", HEADS)
def test_the_onnx_twin_gives_the_same_probabilities(init, task, head, tmp_path):
    import onnxruntime

    images, labels = task
    classifier = init.adapt(images, labels, head=head)
    classifier.export_onnx(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    (answer,) = session.run(None, {session.get_inputs()[0].name: images})
    assert np.abs(answer - classifier.predict_proba(images)).max() < 1e-5


@pytest.mark.parametrize(("arch", "size"), [("conv4-growing", 40), ("resnet10", 32)])
def test_the_onnx_twin_sees_with_earlier_layers_too(arch, size, tmp_path):
    """At 40 pixels the last but one maps of a Conv4 have an odd side: their quadrants share the middle."""
    import onnxruntime

    spec, rng = NetSpec(arch=arch, width=4, size=size, way=3), stream(0, "sight")
    net, images = Net(spec), torch.rand(12, 3, size, size, generator=rng)
    params = net.init(stream(0, "init"))
    seen = looks(spec, net.maps(params, images))
    weight = torch.randn(20, seen[0].shape[1], generator=rng)
    expected = ExpectedAnswers.centred_on(weight, torch.zeros(20), seen, apis=4)
    init, labels = Initialisation(params, spec, expected=expected), [0, 1, 2] * 4
    classifier = init.adapt(images, labels)
    classifier.export_onnx(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    (answer,) = session.run(None, {session.get_inputs()[0].name: images[:5].numpy()})
    assert np.abs(answer - classifier.predict_proba(images[:5])).max() < 1e-5
    blind = replace(init, expected=ExpectedAnswers(*(getattr(expected, name) for name in expected.TENSORS)))
    assert np.abs(blind.adapt(images, labels).predict_proba(images[:5]) - answer).max() > 1e-3


@pytest.mark.parametrize("head", HEADS)
def test_it_comes_back_from_disk_as_it_went(init, task, head, tmp_path):
    images, labels = task
    classifier = init.adapt(images, labels, head=head)
    classifier.save(tmp_path / "clf")
    back = FewShotClassifier.load(tmp_path / "clf")
    assert np.array_equal(back.predict_proba(images), classifier.predict_proba(images))
    assert back.predict(images).tolist() == classifier.predict(images).tolist()
    assert back.head == head


def test_without_a_head_it_compares_expected_answers_where_there_are_any(init, task):
    silent = replace(init, expected=None)
    for source, head in ((init, "answers"), (silent, "prototype")):
        chosen, named = source.adapt(*task), source.adapt(*task, head=head)
        assert np.array_equal(chosen.predict_proba(task[0]), named.predict_proba(task[0]))
    with pytest.raises(ConfigError, match="as chorus makes it; use prototype"):
        silent.adapt(*task, head="answers")


def test_scikit_learn_accepts_it(init, task):
    images, labels = task
    classifier = FewShotClassifier(init, head="prototype", lr=0.2)
    twin = clone(classifier)
    assert twin.get_params().keys() == classifier.get_params().keys()
    assert (twin.head, twin.lr) == ("prototype", 0.2)
    assert twin.set_params(steps=3).steps == 3
    pipeline = Pipeline([("scale", FunctionTransformer(lambda x: np.clip(x, 0, 1))), ("few", classifier)])
    assert pipeline.fit(images, labels).score(images, labels) > 0.9
    assert cross_val_score(classifier, images, labels, cv=3).mean() > 0.9


def test_it_says_when_it_is_not_fitted(init, task):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        FewShotClassifier(init).predict(task[0])


def test_uint8_channels_last_of_another_size_are_welcome(init, task):
    images, labels = task
    classifier = init.adapt(images, labels, head="prototype")
    large = (images.transpose(0, 2, 3, 1).repeat(2, 1).repeat(2, 2) * 255).round().astype(np.uint8)
    assert large.shape == (30, 32, 32, 3)
    assert classifier.score(large, labels) > 0.8


@pytest.mark.parametrize(
    ("images", "labels", "complaint"),
    [
        (np.zeros((2, 3, 16, 16), np.float32), ["a", "a"], "at least 2 classes"),
        (np.zeros((3, 3, 16, 16), np.float32), ["a", "b"], "3 images but 2 labels"),
        (np.full((2, 3, 16, 16), 7.0, np.float32), ["a", "b"], r"float in \[0, 1\]"),
        (np.zeros((2, 16, 16), np.float32), ["a", "b"], "got shape"),
    ],
)
def test_bad_support_sets_are_refused(init, images, labels, complaint):
    with pytest.raises(ConfigError, match=complaint):
        init.adapt(images, labels)


def test_frozen_statistics_reproduce_the_batch_they_came_from(init, task):
    images = torch.from_numpy(task[0])
    statistics = batch_statistics(init.net, init.params, normalise(images))
    still = frozen(init.net, init.params, statistics)(normalise(images))
    with torch.no_grad():
        assert torch.allclose(still, Net(init.net)(init.params, images), atol=1e-4)


def test_a_blend_has_the_moments_of_the_mixture(rng):
    a, b = torch.randn(4000, generator=rng) * 2 + 1, torch.randn(4000, generator=rng) - 3
    of = lambda x: {"l.running_mean": x.mean()[None], "l.running_var": x.var(correction=0)[None]}  # noqa: E731
    mixed = blend(of(a), of(b), 0.5)
    both = torch.cat([a, b])
    assert torch.allclose(mixed["l.running_mean"], both.mean()[None], atol=1e-4)
    assert torch.allclose(mixed["l.running_var"], both.var(correction=0)[None], atol=1e-3)


def test_classes_are_told_apart_by_what_differs_between_them():
    """Within classes the first number varies most and says nothing; the second alone tells them apart."""
    noise = torch.tensor([3.0, -3.0, 1.0, -1.0, 2.0, -2.0])
    labels = torch.tensor([0, 1, 0, 1, 1, 0])
    examples = torch.stack([noise, torch.where(labels == 0, 0.5, -0.5)], 1)
    towards, centre = class_directions(examples, labels, 2)
    assert torch.allclose(centre, examples.mean(0))
    assert torch.allclose(towards[0], -towards[1], atol=1e-6)
    assert towards[0, 1] > 5 * towards[0, 0].abs()
    means = class_means(examples, labels, 2)
    assert abs(means[0, 0] - means[1, 0]) > abs(means[0, 1] - means[1, 1]) / 2, "by class means the noise would count"


def test_one_example_a_class_is_the_nearest_class_mean(rng):
    """Of examples at right angles the same class wins as by cosines."""
    examples = torch.linalg.qr(torch.randn(8, 3, generator=rng)).Q.T
    queries = torch.randn(50, 8, generator=rng)
    towards, centre = class_directions(examples, torch.arange(3), 3)
    assert torch.equal(((queries - centre) @ towards.T).argmax(1), (queries @ examples.T).argmax(1))
