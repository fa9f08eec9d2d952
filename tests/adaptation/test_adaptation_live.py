"""Live classifiers: what is sent, what it costs, and what happens when the APIs are gone."""

import json
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.base import clone

from dfml.adaptation.classifier import FewShotClassifier
from dfml.adaptation.served import classifier_api
from dfml.apis.blackbox import ApiSpec, Terms
from dfml.apis.ledger import spending
from dfml.apis.local.function import FunctionApi
from dfml.cli import main
from dfml.errors import ConfigError
from dfml.initialisation import Initialisation
from dfml.nets import NetSpec
from dfml.nets.functional import Net
from dfml.rng import stream
from methods.colour_apis import Flaky, colour_api

COLOURS = ("red", "green", "blue")


@pytest.fixture
def init():
    """An untrained network of 8 pixels: it sees something, but not much."""
    spec = NetSpec(width=2, size=16, way=3)
    return Initialisation(Net(spec).init(stream(0, "init")), spec)


def pictures(count, *, seed=0, tint=0.35):
    """`count` noisy pictures of each colour, uint8, larger than any network here takes."""
    rng = np.random.default_rng(seed)
    noise = rng.random((3 * count, 3, 32, 32))
    colour = np.eye(3).repeat(count, 0)[:, :, None, None]
    images = (1 - tint) * noise + tint * colour
    return (255 * images).astype(np.uint8), np.array(COLOURS).repeat(count)


def apis():
    return [Flaky(colour_api("good", way=6, seed=3)), Flaky(colour_api("other", way=4, seed=5))]


def blind(name="blind", way=5):
    """An API that always says the same."""
    spec = ApiSpec(name=name, classes=tuple(map(str, range(way))), image=(3, 8, 8))
    return Flaky(FunctionApi(lambda x: np.full((len(x), way), 1 / way), spec))


def sent(boxes):
    return [api.answered for api in boxes]


def test_without_asking_nothing_is_sent_and_the_answer_is_the_offline_one(init):
    (images, labels), (new, _) = pictures(2), pictures(5, seed=1)
    boxes = apis()
    live = FewShotClassifier(init, apis=boxes, ask=0).fit(images, labels)
    assert sent(boxes) == [6, 6]
    assert np.array_equal(live.predict_proba(new), init.adapt(images, labels).predict_proba(new))
    assert sent(boxes) == [6, 6]


def test_a_share_is_that_many_queries_and_none_is_paid_for_twice(init):
    (images, labels), (new, truth) = pictures(2), pictures(10, seed=1)
    boxes = apis()
    live = FewShotClassifier(init, apis=boxes, ask=0.3).fit(images, labels)
    fitted = sum(sent(boxes))
    outcome = live.answer(new)
    assert sum(sent(boxes)) - fitted == outcome.queries == int(outcome.asked.sum()) == 9
    again = live.answer(new)
    assert again.queries == 0
    assert torch.equal(again.probabilities, outcome.probabilities)
    assert live.answer(images).queries == 0, "the support images were asked about when fitting"
    everything = FewShotClassifier(init, apis=boxes, ask=1).fit(images, labels)
    assert everything.score(new, truth) > init.adapt(images, labels).score(new, truth)


def test_one_image_a_class_is_asked_about_twice_once_mirrored(init):
    boxes = apis()
    FewShotClassifier(init, apis=boxes).fit(*pictures(1))
    assert sent(boxes) == [6, 6]


def test_what_tells_nothing_is_never_asked(init):
    (images, labels), (new, _) = pictures(3), pictures(10, seed=1)
    boxes = [blind(), *apis()]
    live = FewShotClassifier(init, apis=boxes, ask=1).fit(images, labels)
    assert live.api_weights_["blind"] == 0
    live.predict(new)
    assert boxes[0].answered == 9


@pytest.mark.parametrize("ask", [0.5, 3, "auto"])
def test_a_budget_is_never_passed_by_fitting_or_predicting(init, ask, tmp_path):
    (images, labels), (new, _) = pictures(2), pictures(20, seed=1)
    for budget in (5, 11, 12, 13, 30):
        boxes, folder = apis(), tmp_path / f"{budget}"
        live = FewShotClassifier(init, apis=boxes, ask=ask, budget=budget, folder=folder).fit(images, labels)
        assert sum(sent(boxes)) <= budget
        outcome = live.answer(new)
        assert sum(sent(boxes)) == spending(folder)["queries"] <= budget
        assert outcome.probabilities.shape == (60, 3)
        assert bool(live.failures_) == (budget < 12)


def test_auto_asks_more_where_the_student_knows_less(init):
    (images, labels), (new, _) = pictures(5), pictures(20, seed=1)
    (clear, names), (plain, _) = pictures(5, tint=0.9), pictures(20, seed=1, tint=0.9)
    unsure = FewShotClassifier(init, apis=apis(), ask="auto").fit(images, labels).answer(new)
    sure = FewShotClassifier(init, apis=apis(), ask="auto").fit(clear, names).answer(plain)
    assert unsure.queries > sure.queries


def test_when_the_apis_are_gone_the_student_answers_and_it_is_said(init):
    (images, labels), (new, _) = pictures(2), pictures(10, seed=1)
    boxes = apis()
    live = FewShotClassifier(init, apis=boxes, ask=1).fit(images, labels)
    for api in boxes:
        api.up = False
    outcome = live.answer(new)
    assert set(outcome.failures) == {"good", "other"}
    assert not outcome.asked.any()
    assert np.array_equal(outcome.probabilities.numpy(), init.adapt(images, labels).predict_proba(new))
    boxes[1].up = True
    assert live.answer(new).asked[:, 1].all(), "the one that is back is asked, the other is not waited for"


def test_apis_alone_are_a_classifier():
    (images, labels), (new, truth) = pictures(3), pictures(20, seed=1)
    boxes = apis()
    live = FewShotClassifier(apis=boxes, ask=None).fit(images, labels)
    assert live.score(new, truth) > 0.8
    assert sum(sent(boxes)) == 2 * 9 + 60, "one query an image"
    with pytest.raises(ConfigError, match="no network of its own"):
        live.export_onnx("model.onnx")
    with pytest.raises(ConfigError, match=r"needs an initialisation .* or APIs"):
        FewShotClassifier().fit(images, labels)
    with pytest.raises(ConfigError, match="no API can tell these classes apart"):
        FewShotClassifier(apis=[blind()]).fit(images, labels)


def test_it_follows_scikit_learns_conventions(init):
    boxes = apis()
    live = FewShotClassifier(init, apis=boxes, ask=0.3, budget=500)
    copy = clone(live, safe=False)
    assert copy.get_params()["ask"] == 0.3
    copy.set_params(ask=0.7)
    assert (live.ask, copy.ask) == (0.3, 0.7)
    wrong: Any
    for wrong in (-1, "often"):
        with pytest.raises(ConfigError, match="'auto' or a number of queries an image"):
            FewShotClassifier(init, apis=boxes, ask=wrong).fit(*pictures(2)).predict(pictures(1)[0])


def test_remote_or_priced_apis_are_not_asked_without_a_budget(init):
    priced = colour_api("priced")
    priced.spec = priced.spec.with_changes(terms=Terms(price=1.5))
    with pytest.raises(ConfigError, match="priced is remote or priced and has no budget"):
        FewShotClassifier(init, apis=[priced]).fit(*pictures(2))


def test_an_unknown_head_and_a_refit_with_another_network(init):
    wrong: Any = "prototypes"
    with pytest.raises(ConfigError, match="unknown head 'prototypes'; did you mean 'prototype'"):
        FewShotClassifier(init, head=wrong).fit(*pictures(2))
    larger = NetSpec(width=2, size=32, way=3)
    live = FewShotClassifier(init).fit(*pictures(2))
    live.set_params(initialisation=Initialisation(Net(larger).init(stream(1)), larger)).fit(*pictures(2))
    assert live.input_spec.size == 32


@pytest.fixture
def photos(tmp_path):
    """A support set and new pictures as files, and a manifest with two APIs."""
    for folder, (images, labels) in {"support": pictures(2), "new": pictures(4, seed=1)}.items():
        for number, (image, label) in enumerate(zip(images, labels, strict=True)):
            place = tmp_path / folder / (label if folder == "support" else "")
            place.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image.transpose(1, 2, 0)).save(place / f"{number}.png")
    (tmp_path / "colours.py").write_text(
        "import numpy as np\nfrom methods.colour_apis import colour_api\n"
        "good, other = colour_api('good', way=6, seed=3).function, colour_api('other', way=4, seed=5).function\n"
    )
    table = (
        '[apis.{0}]\nprotocol = "python"\nfunction = "colours:{0}"\nimage = [3, 16, 16]\nprice = 2.0\nclasses = {1}\n'
    )
    (tmp_path / "apis.toml").write_text(
        table.format("good", json.dumps([f"{k}" for k in range(6)]))
        + table.format("other", json.dumps([f"{k}" for k in range(4)]))
    )
    return tmp_path


def test_the_command_line_adapts_asks_and_says_what_it_cost(photos, init, capsys):
    init.save(photos / "init.safetensors")
    clf = str(photos / "clf")
    adapt = ["adapt", str(photos / "init.safetensors"), "--support", str(photos / "support"), "--out", clf]
    ask = ["--ask", str(photos / "apis.toml")]
    assert main([*adapt, *ask]) == 1
    assert "no budget; say how many queries may be sent with --budget" in capsys.readouterr().err
    assert main([*adapt, *ask, "--budget", "100"]) == 0
    told = capsys.readouterr()
    assert "at most 12 queries (0.02 USD)" in told.err
    assert "12 queries so far" in told.out
    predict = ["predict", clf, str(photos / "new"), "--json"]
    assert main(predict) == 0
    offline = json.loads(capsys.readouterr().out)
    assert all(entry["asked"] == [] for entry in offline)
    assert main([*predict, "--ask", "0.5", "--budget", "100"]) == 0
    told = capsys.readouterr()
    assert "6 queries were sent (18 so far in all); 6 of 12 predictions are the classifier's own" in told.err
    asked = json.loads(told.out)
    assert sum(len(entry["asked"]) for entry in asked) == 6
    assert main([*predict, "--ask", "0.5", "--budget", "100"]) == 0
    assert "0 queries were sent" in capsys.readouterr().err, "the same command again is free"
    assert main([*predict, "--ask", "1", "--budget", "20"]) == 0
    assert "2 queries were sent (20 so far in all)" in capsys.readouterr().err
    assert spending(photos / "clf")["queries"] == 20
    assert sum(api["saved"] for api in spending(photos / "clf")["apis"].values()) >= 12, "what was on file is counted"
    assert main(["predict", clf, str(photos / "new"), "--ask", "1", "--budget", "20"]) == 0
    assert "12 images: at most 12 queries (0.02 USD), and no more than 20 in all" in capsys.readouterr().err
    assert main([*predict, "--ask", "often"]) == 1
    assert "--ask takes a number of queries an image" in capsys.readouterr().err


def test_the_command_line_makes_a_classifier_of_apis_alone(photos, capsys):
    clf = str(photos / "clf")
    ask = ["--ask", str(photos / "apis.toml"), "--budget", "100"]
    assert main(["adapt", "--support", str(photos / "support"), *ask, "--out", clf]) == 0
    capsys.readouterr()
    assert main(["predict", clf, str(photos / "new"), "--budget", "100", "--json"]) == 0
    asked = json.loads(capsys.readouterr().out)
    assert all(entry["asked"] for entry in asked)
    assert main(["adapt", "--support", str(photos / "support"), "--out", clf]) == 1
    assert "adapt needs a run folder, APIs to ask" in capsys.readouterr().err


def test_a_saved_classifier_takes_its_ledger_along_and_finds_its_apis_again(init, tmp_path):
    (images, labels), (new, _) = pictures(2), pictures(10, seed=1)
    boxes = apis()
    live = FewShotClassifier(init, apis=boxes, ask=0.5).fit(images, labels)
    before = live.answer(new)
    live.save(tmp_path / "clf")
    again = FewShotClassifier.load(tmp_path / "clf", apis=apis())
    outcome = again.answer(new)
    assert outcome.queries == 0, "what was paid for before it was saved is on file"
    assert torch.allclose(outcome.probabilities, before.probabilities, atol=1e-6)
    alone = FewShotClassifier.load(tmp_path / "clf", ask=0)
    assert np.array_equal(alone.predict_proba(new), init.adapt(images, labels).predict_proba(new))
    with pytest.raises(ConfigError, match="fitted with APIs that are not on file"):
        FewShotClassifier.load(tmp_path / "clf").predict(new)
    with pytest.raises(ConfigError, match="made with the API 'good', which is not among those given"):
        FewShotClassifier.load(tmp_path / "clf", apis=[boxes[1]]).predict(new)


def test_a_classifier_is_an_api_itself(init):
    (images, labels), (new, _) = pictures(2), pictures(4, seed=1)
    classifier = init.adapt(images, labels)
    api = classifier_api(classifier, "colours")
    assert (api.spec.classes, api.spec.image) == (("blue", "green", "red"), (3, 16, 16))
    small = torch.from_numpy(new).float().div(255)
    assert np.allclose(api(small).numpy(), classifier.predict_proba(new), atol=1e-5)
