"""What answers about a task's own images say: closed forms, and sums made by hand."""

import math
from dataclasses import replace
from functools import partial

import pytest
import torch
import torch.nn.functional as F

from dfml.adaptation.answer_features import (
    api_weight,
    batch_scale,
    class_cosines,
    class_sums,
    fused_logits,
    measured_from_mean,
    worth_asking,
)
from dfml.adaptation.guess import Guess
from dfml.nets.answer_directions import answer_directions


def test_directions_are_centred_unit_logarithms_and_say_nothing_of_a_uniform_answer():
    probs = torch.tensor([[0.7, 0.2, 0.1], [1 / 3, 1 / 3, 1 / 3]])
    logs = [math.log(1 + 1000 * p) for p in (0.7, 0.2, 0.1)]
    centred = [value - sum(logs) / 3 for value in logs]
    length = math.sqrt(sum(value**2 for value in centred))
    first, second = answer_directions(probs)
    assert first.tolist() == pytest.approx([value / length for value in centred], abs=1e-6)
    assert second.abs().max() < 1e-3


def test_no_image_confirms_itself(rng):
    """With beliefs, every image is compared with class sums of all others, made one by one."""
    directions = F.normalize(torch.randn(7, 5, generator=rng), dim=1)
    sums = torch.randn(3, 5, generator=rng)
    belief = torch.rand(7, 3, generator=rng) * (torch.arange(7) != 4)[:, None]  # image 4 belongs nowhere
    found = class_cosines(directions, sums, belief)
    for image in range(7):
        for label in range(3):
            others = sum(belief[j, label] * directions[j] for j in range(7) if j != image)
            mean = sums[label] + others
            assert found[image, label].item() == pytest.approx(float(directions[image] @ mean / mean.norm()), abs=1e-5)


@pytest.mark.parametrize("network", [0.05, 0.4])
def test_logits_of_a_batch_spread_by_the_shots_however_wide_the_networks_cosines_do(rng, network):
    cosines = network * torch.randn(2000, 5, generator=rng) + torch.randn(2000, 1, generator=rng)
    for shots, wanted in ((1, 0.54), (5, 0.54 * 5**0.4)):
        logits = batch_scale(cosines, shots) * cosines
        spread = (logits - logits.mean(1, keepdim=True)).square().mean().sqrt()
        assert float(spread) == pytest.approx(wanted, rel=0.05)


def test_one_image_is_not_taken_for_a_batch():
    flat = torch.full((1, 5), 0.3)
    assert batch_scale(flat, 1) == pytest.approx(0.54 / (0.2 * (8 / 9) ** 0.5))


def sharp(labels, classes, *, noise, rng):
    """Answers that mostly name class `label`, softened by noise."""
    return (4 * F.one_hot(labels, classes) + noise * torch.randn(len(labels), classes, generator=rng)).softmax(1)


def test_an_api_that_tells_classes_apart_weighs_more_than_one_that_does_so_less(rng):
    labels = torch.arange(5).repeat_interleave(3)
    good, fair = (api_weight(sharp(labels, 20, noise=noise, rng=rng), labels) for noise in (0.3, 2.0))
    assert good > 2 * fair > 0


def test_answers_without_knowledge_weigh_nothing(rng):
    labels = torch.arange(5).repeat(2)
    constant = torch.tensor([0.7, 0.2, 0.1]).expand(10, 3)
    uniform = torch.full((10, 4), 0.25)
    for weight in (api_weight, partial(api_weight, mirrored=True)):
        assert weight(constant, labels) == pytest.approx(0, abs=1e-6)
        assert weight(uniform, labels) == pytest.approx(0, abs=1e-6)
        informed = weight(sharp(labels, 30, noise=0.5, rng=rng), labels)
        random = [weight(torch.randn(10, 30, generator=rng).mul(3).softmax(1), labels) for _ in range(20)]
        assert sum(random) / 20 < 0.05 * informed


def test_a_mirror_image_tells_how_steady_an_api_is_not_what_it_knows(rng):
    """A bird network beside one that calls every bird by the same few names, and hardly changes its mind."""
    labels = torch.arange(5).repeat(2)
    knows = sharp(labels, 30, noise=0.4, rng=rng)
    bird = torch.zeros(30).index_fill_(0, torch.arange(20, 30), 5.0)  # ten names that fit them all a little
    steady = (bird + 2 * F.one_hot(labels, 30) + 0.05 * torch.randn(10, 30, generator=rng)).softmax(1)
    assert api_weight(steady, labels) > api_weight(knows, labels)
    assert api_weight(knows, labels, mirrored=True) > 10 * api_weight(steady, labels, mirrored=True) > 0


def test_the_fused_logits_are_the_students_where_no_api_answered():
    student = torch.tensor([[1.0, 2.0], [3.0, 0.0]])
    cosines = torch.tensor([[[0.5, -0.5], [0.1, 0.3]], [[0.9, 0.2], [0.4, 0.6]]])
    asked = torch.tensor([[False, False], [True, True]])
    fused = fused_logits(student, cosines, asked, torch.tensor([3.0, 1.0]), 16.0)
    assert fused[0].tolist() == [1.0, 2.0]
    mean = [(3 * 0.9 + 0.4) / 4, (3 * 0.2 + 0.6) / 4]
    expected = [0.25 * 3 + 8 * 2 * mean[0], 0.25 * 0 + 8 * 2 * mean[1]]  # 16 shots: 16^(1/4) = 2
    assert fused[1].tolist() == pytest.approx(expected, abs=1e-5)


def test_a_query_is_worth_the_chance_to_be_wrong_and_less_after_others():
    probabilities = torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.6, 0.4], [0.6, 0.4]])
    asked = torch.tensor([[False, False], [False, False], [True, False], [True, True]])
    worth, api = worth_asking(probabilities, asked, torch.tensor([3.0, 1.0]))
    assert worth.tolist() == pytest.approx([0.1, 0.4, 0.4 * 1 / 4, 0.0], abs=1e-6)
    assert api.tolist()[:3] == [0, 0, 1]


def test_class_sums_add_up_directions():
    directions = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    assert class_sums(directions, torch.tensor([1, 0, 1]), 2).tolist() == [[0.0, 1.0], [1.5, 0.5]]


def test_what_all_images_have_in_common_is_left_out(rng):
    """Classes may differ in shots; the mean is that of every image at hand, one by one."""
    support = F.normalize(torch.rand(5, 8, generator=rng) + 1, dim=1)
    labels = torch.tensor([0, 0, 0, 1, 1])
    new = F.normalize(torch.rand(7, 8, generator=rng) + 1, dim=1)
    directions, sums = measured_from_mean(new, class_sums(support, labels, 2), torch.bincount(labels))
    mean = torch.cat([support, new]).mean(0)
    assert torch.allclose(directions, F.normalize(new - mean, dim=1), atol=1e-5)
    ours = torch.stack([(support[labels == c] - mean).sum(0) for c in (0, 1)])
    assert torch.allclose(F.normalize(sums, dim=1), F.normalize(ours, dim=1), atol=1e-5)
    assert torch.allclose(sums.norm(dim=1) / ours.norm(dim=1), 1 / (new - mean).norm(dim=1).mean(), atol=1e-4)


def test_company_sharpens_a_guess_of_features_and_leaves_others_as_they_are(rng):
    """Two classes that differ a little, beside much that they share: one image alone hardly tells them apart."""
    truth = torch.arange(2).repeat_interleave(5)
    shared = torch.tensor([10.0, 0.0, 0.0])
    directions = F.normalize(shared + F.one_hot(truth + 1, 3) + 0.1 * torch.randn(10, 3, generator=rng), dim=1)
    sums = F.normalize(shared + F.one_hot(torch.tensor([1, 2]), 3), dim=1)
    guess = Guess(6.5 * class_cosines(directions, sums), directions, sums, torch.tensor([1, 1]))
    together = guess.in_company(1).logits.softmax(1)
    assert guess.logits.softmax(1).max() < 0.55
    assert (together.argmax(1) == truth).all()
    assert together.max(1).values.mean() > 0.8
    for other in (Guess(guess.logits), replace(guess, centre="learning")):
        assert other.in_company(1) is other
