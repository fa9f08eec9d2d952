"""What APIs said while predicting becomes the student's own: kept pictures, and a network that learns from them."""

import numpy as np
import pytest
import torch

from adaptation.test_adaptation_live import apis, pictures
from dfml.adaptation.classifier import FewShotClassifier
from dfml.adaptation.kept import as_table, keep, read_kept
from dfml.adaptation.refining import refined
from dfml.cli import main
from dfml.errors import ConfigError
from dfml.initialisation import Initialisation
from dfml.nets import NetSpec
from dfml.nets.functional import Net
from dfml.rng import stream


@pytest.fixture
def init():
    spec = NetSpec(width=4, size=16, way=3)
    return Initialisation(Net(spec).init(stream(0, "init")), spec)


@pytest.fixture
def used(init, tmp_path):
    """A live classifier's folder after predicting two batches and keeping what it asked about."""
    live = FewShotClassifier(init, apis=apis(), ask=0.5, folder=tmp_path / "clf").fit(*pictures(3))
    live.save(tmp_path / "clf")
    for seed in (1, 2):
        new, _ = pictures(40, seed=seed)
        kept = keep(tmp_path / "clf", torch.from_numpy(new).float() / 255, live.answer(new), live.input_spec)
        assert kept == 60
    return tmp_path / "clf"


def test_what_is_kept_is_what_was_asked_about_with_what_was_answered(used):
    table = as_table(list(read_kept(used)))
    assert table.images.shape == (120, 3, 16, 16)
    assert int(table.asked.sum()) == 120
    sums = table.probs.sum(-1)[table.asked]
    assert torch.allclose(sums, torch.ones_like(sums), atol=2e-3), "answers are kept with the digits of float16"
    boxes = {api.spec.name: api for api in apis()}
    names = next(iter(read_kept(used))).answers
    for column, name in enumerate(names):
        mine = table.asked[:, column]
        if int(mine.sum()):
            again = boxes[name](table.images[mine].float() / 255)  # smaller than what was asked about, but near
            told = table.probs[mine, column, : again.shape[1]]
            assert (again.argmax(1) == told.argmax(1)).float().mean() > 0.8


def test_a_refined_student_foresees_its_apis_better_and_says_that_it_is_not_data_free(used, init):
    new, _ = pictures(300, seed=9)
    teacher = apis()[0]
    small = torch.from_numpy(new).float() / 255
    labels = teacher(small).argmax(1)

    def knowledge(start):
        """How well a linear map of the features foresees the API's labels: of half of them, fitted on the others."""
        net = Net(start.net)
        with torch.no_grad():
            features = net.features(start.params, torch.nn.functional.avg_pool2d(small, 2))
        features = torch.cat([features, torch.ones(len(features), 1)], 1)
        wanted = torch.nn.functional.one_hot(labels, 6).float()
        weights = torch.linalg.lstsq(features[::2], wanted[::2]).solution
        return ((features[1::2] @ weights).argmax(1) == labels[1::2]).float().mean().item()

    after = refined(init, used, steps=300)
    assert knowledge(after) > knowledge(init) + 0.05
    assert not after.data_free
    assert "120 pictures" in (after.caveat or "")


def test_the_command_line_refines_and_the_classifier_goes_on(used, capsys):
    before = FewShotClassifier.load(used, ask=0)
    assert main(["refine", str(used), "--steps", "20"]) == 0
    assert "learned from 120 pictures" in capsys.readouterr().out
    after = FewShotClassifier.load(used, ask=0)
    new, _ = pictures(5, seed=3)
    assert not np.array_equal(before.predict_proba(new), after.predict_proba(new))
    assert after.api_weights_ == before.api_weights_


def test_too_few_pictures_are_one_sentence(init, tmp_path):
    FewShotClassifier(init, apis=apis(), folder=tmp_path).fit(*pictures(2)).save(tmp_path)
    with pytest.raises(ConfigError, match="keeps 0 pictures that APIs answered about, too few"):
        refined(init, tmp_path)
    offline = init.adapt(*pictures(2))
    with pytest.raises(ConfigError, match="only a live classifier"):
        offline.with_student(init)
