"""Classes that several APIs know by one name are one to the student of chorus."""

from dataclasses import replace

import pytest
import torch

from dfml.apis.local.function import FunctionApi
from dfml.events import Remark
from dfml.learning import learn
from dfml.methods.chorus.asking import AnswerTable
from dfml.methods.chorus.heads import AnswerHeads
from dfml.methods.chorus.student import ChorusDistilConfig, ChorusStudent
from dfml.methods.chorus.vocabulary import Vocabulary, agreeing, agreement
from dfml.nets import NetSpec
from dfml.nets.functional import Net
from dfml.rng import stream
from methods.colour_apis import colour_api

CPU = torch.device("cpu")


def same(vocabulary, one, other):
    """Whether two columns, each (API, column), hold one class."""
    return bool(vocabulary.rows[one] == vocabulary.rows[other])


def test_one_name_is_one_class_whichever_api_knows_it():
    vocabulary = Vocabulary.by_name([("cat", "dog"), ("dog", "fox", "owl"), (" cat", "elk")])
    assert vocabulary.size == 5
    assert same(vocabulary, (0, 1), (1, 0))
    assert same(vocabulary, (0, 0), (2, 0))
    assert not same(vocabulary, (0, 0), (1, 0))


def test_numbers_are_no_names():
    for names in (("0", "1"), ("class 0", "class 1"), ("Label_3", "label-4")):
        assert Vocabulary.by_name([names, names]).size == 4
    assert Vocabulary.by_name([("n02119789", "747")] * 2).size == 3, "a synset is a name"


def test_apart_nothing_is_shared():
    assert Vocabulary.apart([2, 3]).size == 5


def test_circles_are_drawn_through_friends_of_friends():
    names = [("a", "b"), ("x", "y"), ("c", "d"), ("b", "c"), ("z", "w")]
    vocabulary = Vocabulary.by_name(names)
    assert vocabulary.circles(range(5)) == [[0, 2, 3], [1], [4]]
    assert vocabulary.circles([0, 2, 4]) == [[0], [2], [4]], "without the friend they are strangers"


def filled(vocabulary, rng):
    heads = AnswerHeads(vocabulary, features=4, rng=rng, device=CPU)
    for value in heads.values.values():
        value += torch.randn(value.shape, generator=rng) / 4
    return heads


def test_the_layer_of_an_api_alone_answers_as_its_head_does(rng):
    heads = filled(Vocabulary.by_name([("a", "b", "c"), ("x", "y")]), rng)
    features, everyone = torch.randn(6, 4, generator=rng), torch.arange(2)
    weight, bias = heads.circles(everyone)
    alone = (torch.einsum("nd,mkd->nmk", features, weight) + bias).softmax(-1)
    assert torch.allclose(alone, heads.logits(features, heads.of(everyone), everyone).softmax(-1), atol=1e-6)
    assert not alone[:, 1, 2].any(), "a class that it has not"


def test_a_circle_weighs_classes_that_no_api_has_together(rng):
    """By hand: a and c were never in one answer; b, which both APIs know, says how they compare."""
    heads = filled(Vocabulary.by_name([("a", "b"), ("b", "c")]), rng)
    heads.manner.values["loudness"].zero_()
    heads.manner.values["leaning"].zero_()
    features, everyone = torch.randn(6, 4, generator=rng), torch.arange(2)
    answers = heads.logits(features, heads.of(everyone), everyone).softmax(-1)
    a_to_b, c_to_b = answers[:, 0, 0] / answers[:, 0, 1], answers[:, 1, 1] / answers[:, 1, 0]
    weight, bias = heads.circles(everyone)
    together = (features @ weight[0].T + bias[0]).softmax(-1)
    assert torch.allclose(together[:, 0] / together[:, 2], a_to_b / c_to_b, rtol=1e-4)


def test_apis_that_share_their_classes_teach_each_other():
    """Two APIs know the same two classes, and each was asked about half of the pictures only: about which half it was
    not asked, the other one has told what there is to know."""
    colours = torch.randint(0, 256, (80, 3, 1, 1), generator=stream(0), dtype=torch.uint8)
    images = colours.expand(-1, -1, 16, 16).contiguous()
    reddish = torch.sigmoid(8 * (colours[:, 0, 0, 0] / 255 - 0.5))
    probs = torch.stack([reddish, 1 - reddish], 1)[:, None].expand(-1, 2, -1).contiguous()
    bright = colours.float().mean((1, 2, 3)) > 127
    asked = torch.stack([bright, ~bright], 1)

    def unheard(vocabulary):
        net = Net(NetSpec(width=8, size=16))
        config = ChorusDistilConfig(steps=150, batch=32, held_out=0.0, jitter=0.0, shift=0)
        answers = AnswerTable(images, probs * asked[..., None], asked, torch.tensor([2, 2]))
        student = ChorusStudent(net, net.init(stream(2)), answers, config, rng=stream(3), vocabulary=vocabulary)
        while student.step < config.steps:
            student.advance()
        both = torch.arange(2)
        with torch.no_grad():
            features = net.features(student.params, images / 255)
            expected = student.heads.logits(features, student.heads.of(both), both).softmax(-1)
        return float((expected - probs)[~asked].abs().mean())

    assert unheard(Vocabulary.by_name([("red", "other")] * 2)) < 0.7 * unheard(Vocabulary.apart([2, 2]))


def honest(count, *, asked=1.0, pictures=400):
    """Names and answers of APIs that know three of six classes each, see the same in a picture, and say it noisily."""
    rng = stream(5)
    shown = torch.randn(pictures, 6, generator=rng)
    known = [sorted(torch.randperm(6, generator=rng)[:3].tolist()) for _ in range(count)]
    noise = torch.randn(pictures, count, 3, generator=rng)
    probs = (2 * torch.stack([shown[:, classes] for classes in known], 1) + noise).softmax(-1)
    heard = torch.rand(pictures, count, generator=rng) < asked
    answers = AnswerTable(
        torch.zeros(pictures, 3, 8, 8, dtype=torch.uint8), probs * heard[..., None], heard, torch.full((count,), 3)
    )
    return [[f"thing {'abcdef'[c]}" for c in classes] for classes in known], answers


@pytest.mark.parametrize("asked", [1.0, 0.25])
def test_apis_that_mean_the_same_are_believed(asked):
    names, answers = honest(8, asked=asked)
    vocabulary, strangers = agreeing(names, answers)
    assert strangers == []
    assert vocabulary.size == 6


def test_who_means_other_things_by_the_same_names_keeps_them_to_itself():
    names, answers = honest(8)
    names[2], names[5] = names[2][1:] + names[2][:1], names[5][1:] + names[5][:1]  # each name at the next class
    vocabulary, strangers = agreeing(names, answers)
    assert strangers == [2, 5]
    assert vocabulary.size == 6 + 3 + 3


def test_agreement_is_the_correlation_of_two_that_share_a_class():
    generator = stream(7)
    one = torch.rand(50, generator=generator)
    other = (one + torch.rand(50, generator=generator)) / 2
    probs = torch.stack([torch.stack([p, 1 - p], 1) for p in (one, other)], 1)
    answers = AnswerTable(
        torch.zeros(50, 3, 8, 8, dtype=torch.uint8), probs, torch.ones(50, 2, dtype=torch.bool), torch.tensor([2, 2])
    )
    told = agreement(Vocabulary.by_name([("cat", "dog"), ("cat", "fox")]), answers)
    assert torch.allclose(told, torch.corrcoef(torch.stack([one, other]))[0, 1].expand(2), atol=1e-4)
    assert agreement(Vocabulary.by_name([("cat", "dog"), ("elk", "fox")]), answers).tolist() == [1, 1]


def test_a_run_tells_whose_names_mean_something_else(tmp_path):
    def renamed(api, names):
        return FunctionApi(api.function, replace(api.spec, classes=names))

    apis = [renamed(colour_api(f"api-{i}", seed=0), ("red", "green", "blue")) for i in range(3)]
    apis.append(renamed(colour_api("liar", seed=0), ("green", "blue", "red")))
    told = []
    learn(apis, tmp_path / "run", settings=["queries=200", "net.width=8", "distil.steps=20"], on_event=told.append)
    remarks = [event.text for event in told if isinstance(event, Remark)]
    assert [remark.split()[0] for remark in remarks] == ["liar"]
