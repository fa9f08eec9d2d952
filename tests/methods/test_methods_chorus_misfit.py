"""How far answers lie apart: what is met exactly has no misfit, what says nothing has no gain."""

import pytest
import torch

from dfml.methods.chorus.asking import AnswerTable
from dfml.methods.chorus.misfit import Directions, Probabilities
from dfml.methods.chorus.student import ChorusDistilConfig, ChorusStudent
from dfml.methods.chorus.vocabulary import Vocabulary
from dfml.nets import NetSpec
from dfml.nets.functional import Net
from dfml.rng import stream

COUNT, WAY = 400, 60
HONEST, CONSTANT, RANDOM = range(3)


def answers(rng):
    """Of three APIs: one that answers by the image's colour, one that always says the same, one that throws dice."""
    colours = torch.randint(0, 256, (COUNT, 3, 1, 1), generator=rng, dtype=torch.uint8)
    views = torch.randn(3, WAY, generator=rng)
    honest = (8 * (colours.flatten(1) / 255 - 0.5) @ views).softmax(-1)
    constant = torch.rand(WAY, generator=rng).mul(4).softmax(-1).expand(COUNT, -1)
    dice = torch.randn(COUNT, WAY, generator=rng).mul(3).softmax(-1)
    probs = torch.stack([honest, constant, dice], 1)
    images = colours.expand(-1, -1, 16, 16).contiguous()
    return AnswerTable(images, probs, torch.ones(COUNT, 3, dtype=torch.bool), torch.full((3,), WAY))


def by_directions(table):
    return Directions([table], torch.ones(3, WAY, dtype=torch.bool))


def test_what_is_met_exactly_has_no_misfit_and_its_opposite_the_largest(rng):
    table, everyone = answers(rng), torch.arange(3)
    misfit = by_directions(table)
    exact = misfit(table.probs.log(), table, everyone)
    assert torch.allclose(exact[:, [HONEST, RANDOM]], torch.zeros(COUNT, 2), atol=1e-4)
    other = misfit(table.probs.log().roll(7, 0), table, everyone)[:, RANDOM]
    assert other.mean() == pytest.approx(1, abs=0.1), "two answers that have nothing to do with each other"


def test_an_api_that_always_says_the_same_teaches_nothing(rng):
    table = answers(rng)
    logits = torch.randn(COUNT, 3, WAY, generator=rng, requires_grad=True)
    misfit = by_directions(table)(logits, table, torch.arange(3))
    (gradient,) = torch.autograd.grad(misfit.sum(), logits)
    assert torch.allclose(misfit[:, CONSTANT], torch.ones(COUNT), atol=1e-2)
    assert gradient[:, CONSTANT].norm() < 0.01 * gradient[:, HONEST].norm()


@pytest.mark.parametrize("kind", ["probabilities", "directions"])
def test_only_answers_that_follow_the_image_have_gain(rng, kind):
    """A student that knows the truth about the honest one and nothing but the mean of the others."""
    table = answers(rng)
    first, last = table.rows(torch.arange(200)), table.rows(torch.arange(200, COUNT))
    known = last.probs.clone()
    known[:, 1:] = first.probs[:, 1:].mean(0)
    misfit = by_directions(first) if kind == "directions" else Probabilities(1.0)
    judged = misfit.judged([known.log()], [last], [first], sure=3.0)
    assert judged.gain[HONEST] == pytest.approx(1, abs=0.01)
    assert judged.least[HONEST] > 0
    assert bool((judged.gain[1:] < 0.02).all())
    assert bool((judged.most[1:] < 0.4).all())


def test_a_student_of_many_classes_learns_directions_and_drops_who_says_nothing(rng):
    table = answers(rng)
    net = Net(NetSpec(width=8, size=16))
    config = ChorusDistilConfig(steps=120, batch=32, jitter=0.0, shift=0, held_out=0.2, weigh_at=0.5)
    student = ChorusStudent(
        net, net.init(stream(0)), table, config, vocabulary=Vocabulary.apart([WAY] * 3), rng=stream(1)
    )
    losses = [student.advance() for _ in range(120)]
    assert isinstance(student.misfit, Directions)
    assert student.trust.tolist() == [1.0, 0.0, 0.0]
    assert sum(losses[-10:]) / 10 < 0.4 < losses[0]
    few = AnswerTable(table.images, table.probs[..., :5], table.asked, torch.full((3,), 5))
    student = ChorusStudent(net, net.init(stream(0)), few, config, vocabulary=Vocabulary.apart([5] * 3), rng=stream(1))
    assert isinstance(student.misfit, Probabilities)
