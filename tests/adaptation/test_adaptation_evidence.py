"""Why a classifier says what it says: examples left out one by one, and the nearest ones."""

import numpy as np
import pytest
import torch

from dfml.adaptation.classifier import FewShotClassifier
from dfml.errors import ConfigError
from dfml.initialisation import Initialisation
from dfml.nets import NetSpec
from dfml.nets.functional import Net, normalise
from dfml.nets.statistics import batch_statistics
from dfml.rng import stream

SHOTS = (4, 2, 3)


@pytest.fixture
def init():
    """With statistics of its own, so that leaving an image out changes the class means and nothing else."""
    spec = NetSpec(width=4, size=16, way=3)
    params = Net(spec).init(stream(0, "init"))
    some = torch.rand(32, 3, 16, 16, generator=stream(0, "some"))
    return Initialisation(params, spec, batch_statistics(spec, params, normalise(some)))


@pytest.fixture
def support():
    rng = np.random.default_rng(0)
    labels = np.repeat(["a", "b", "c"], SHOTS)
    images = rng.random((len(labels), 3, 16, 16)).astype(np.float32)
    images += 0.3 * np.eye(3)[np.repeat(range(3), SHOTS)][:, :, None, None].astype(np.float32)
    return images / images.max(), labels


def test_leaving_one_out_is_fitting_without_it(init, support):
    images, labels = support
    found = init.adapt(images, labels, support_weight=0).leave_one_out()
    for row in range(len(labels)):
        others = np.arange(len(labels)) != row
        alone = init.adapt(images[others], labels[others], support_weight=0).predict_proba(images[row : row + 1])[0]
        # The same cosines, multiplied by scales that grow with sqrt(shots): 9 images against 8.
        scale = np.sqrt(9 / 8)
        expected = np.log(alone) - np.log(alone[0])
        assert np.allclose(np.log(found[row]) - np.log(found[row][0]), scale * expected, atol=1e-4)


def test_the_nearest_example_of_an_image_is_itself(init, support):
    images, labels = support
    rows, cosines = init.adapt(images, labels).nearest(images, 3)
    assert rows.shape == cosines.shape == (9, 3)
    assert rows[:, 0].tolist() == list(range(9))
    assert np.allclose(cosines[:, 0], 1, atol=1e-5)
    assert (np.diff(cosines, axis=1) <= 0).all()


def test_one_that_was_loaded_has_no_examples_and_says_so(init, support, tmp_path):
    init.adapt(*support).save(tmp_path)
    with pytest.raises(ConfigError, match="knows its examples"):
        FewShotClassifier.load(tmp_path).leave_one_out()
    with pytest.raises(ConfigError, match="knows its examples"):
        init.adapt(*support, head="finetune").nearest(support[0])
