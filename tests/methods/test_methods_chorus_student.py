"""The student of chorus: its updates, shared out to cores and to a part of the APIs."""

import pytest
import torch

from dfml.methods.chorus.asking import AnswerTable
from dfml.methods.chorus.heads import SparseAdam
from dfml.methods.chorus.student import ChorusDistilConfig, ChorusStudent
from dfml.methods.chorus.vocabulary import Vocabulary
from dfml.nets import NetSpec
from dfml.nets.functional import Net
from dfml.rng import stream
from dfml.runtime import single_cores

APIS = 6


def table(count=60):
    """Images of one colour each; every API answers by the colour, in its own way."""
    colours = torch.randint(0, 256, (count, 3, 1, 1), generator=stream(0), dtype=torch.uint8)
    images = colours.expand(-1, -1, 16, 16).contiguous()
    views = torch.randn(APIS, 3, 4, generator=stream(1))
    probs = (5 * torch.einsum("nc,mck->nmk", colours.flatten(1) / 255 - 0.5, views)).softmax(-1)
    return AnswerTable(images, probs, torch.ones(count, APIS, dtype=torch.bool), torch.full((APIS,), 4))


def student(*, width=4, side_by_side=map, **settings):
    config = ChorusDistilConfig(**{"steps": 12, "batch": 16, "held_out": 0.0, **settings})
    net = Net(NetSpec(width=width, size=16))
    return ChorusStudent(
        net,
        net.init(stream(2)),
        table(),
        config,
        vocabulary=Vocabulary.apart([4] * APIS),
        rng=stream(3),
        side_by_side=side_by_side,
    )


@pytest.mark.parametrize("optimiser", ["muon", "adam"])
def test_any_number_of_workers_makes_the_same_bits(optimiser):
    made = []
    for workers in (1, 2, 3):
        with single_cores(workers) as side_by_side:
            learning = student(parts=4, side_by_side=side_by_side, optimiser=optimiser)
            losses = [learning.advance() for _ in range(5)]
            made.append((losses, {**learning.params, **learning.heads.values}))
    for losses, values in made[1:]:
        assert losses == made[0][0]
        assert all(torch.equal(value, made[0][1][name]) for name, value in values.items())


def test_the_threads_of_the_process_are_as_before():
    torch.set_num_threads(2)
    with single_cores(2) as side_by_side:
        assert list(side_by_side(lambda _: torch.get_num_threads(), range(4))) == [1, 1, 1, 1]
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2


def test_what_is_in_every_update_is_trained_as_torch_trains_it(rng):
    items = SparseAdam({"weight": torch.randn(3, 5, generator=rng), "bias": torch.zeros(3)})
    same = {name: value.clone().requires_grad_() for name, value in items.values.items()}
    adam = torch.optim.Adam(same.values(), lr=0.01, betas=(0.8, 0.99))
    for _ in range(4):
        gradient = {name: torch.randn(value.shape, generator=rng) for name, value in same.items()}
        for name, value in same.items():
            value.grad = gradient[name]
        adam.step()
        items.update(torch.arange(3), gradient, lr=0.01, betas=(0.8, 0.99))
    assert all(torch.allclose(items.values[name], value, atol=1e-7) for name, value in same.items())


def test_what_is_heard_late_moves_as_far_as_what_is_heard_from_the_beginning():
    """Adam's first step is as long as the rate, whatever the gradient, however many steps others have made."""
    items = SparseAdam({"weight": torch.zeros(2, 5)})
    for some in (torch.tensor([0]),) * 50 + (torch.tensor([1]),):
        items.update(some, {"weight": torch.ones(1, 5)}, lr=0.01, betas=(0.9, 0.999))
    assert torch.allclose(items.values["weight"][1], torch.full((5,), -0.01), atol=1e-5)


def test_an_update_listens_to_as_many_apis_as_it_is_told_and_in_the_end_to_all():
    learning, moved = student(heard=2), torch.zeros(APIS, dtype=torch.bool)
    for _ in range(12):
        before = learning.heads.values["leaning"].clone()
        learning.advance()
        changed = (learning.heads.values["leaning"] != before).flatten(1).any(1)
        assert int(changed.sum()) == 2
        moved |= changed
    assert moved.all()


def test_whoever_is_not_believed_is_not_listened_to():
    learning = student(heard=2)
    learning.trust = torch.tensor([0.0, 1.0, 1.0, 0.0, 1.0, 1.0])
    for _ in range(12):
        learning.advance()
    updates = learning.heads.manner.updates
    assert updates[[0, 3]].tolist() == [0, 0]
    assert int(updates.sum()) == 24
    assert learning.heads.classes.updates.view(APIS, 4).T.tolist() == [updates.tolist()] * 4, "nor their classes"


@pytest.mark.parametrize(("heard", "optimiser"), [(2, "muon"), (256, "muon"), (256, "adam")])
def test_a_saved_student_goes_on_to_the_same_bits(tmp_path, heard, optimiser):
    settings = {"heard": heard, "held_out": 0.2, "optimiser": optimiser}
    whole, first, second = (student(**settings) for _ in range(3))
    for _ in range(4):
        whole.advance()
        first.advance()
    first.save(tmp_path / "student")
    assert second.load(tmp_path / "student")
    assert [whole.advance() for _ in range(4)] == [second.advance() for _ in range(4)]
    assert all(torch.equal(value, whole.params[name]) for name, value in second.params.items())


@pytest.mark.parametrize("optimiser", ["muon", "adam"])
def test_hearing_a_part_at_a_time_teaches_all_of_them(optimiser):
    """Each API is foreseen better than by its mean answer, which is what is known without seeing images."""
    learning = student(width=16, heard=2, steps=100, jitter=0.0, shift=0, optimiser=optimiser)
    for _ in range(100):
        learning.advance()
    told = learning.answers
    foreseen = learning.expected(told.images / 255).answers(learning.net.features(learning.params, told.images / 255))

    def misfit(expected):
        return (told.probs * (told.probs / expected).log()).sum(-1).mean(0)

    assert (misfit(foreseen) < 0.8 * misfit(told.probs.mean(0))).all()
