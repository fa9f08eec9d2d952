"""What a network sees of an image besides its last features."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from dfml.nets import NetSpec
from dfml.nets.expected_answers import ExpectedAnswers
from dfml.nets.functional import Net, normalise
from dfml.nets.sight import FLOOR, Evened, Sight, looks


@pytest.mark.parametrize("arch", ["conv4", "conv4-growing", "resnet10", "resnet18"])
def test_the_maps_of_functions_and_of_modules_are_the_same(arch, rng):
    spec = NetSpec(arch=arch, width=16, size=32)
    net, module = Net(spec), spec.build(rng=torch.Generator().manual_seed(0), batch_norm="batch").double()
    params = {name: p.detach() for name, p in module.named_parameters()}
    x = torch.rand(4, 3, 32, 32, generator=rng, dtype=torch.float64)
    ours, theirs = net.maps(params, x), module.maps(normalise(x))
    assert [one.shape[1] for one in ours] == list(spec.widths)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)
    assert torch.equal(looks(spec, theirs)[0], module.features(normalise(x)))


@pytest.mark.parametrize("side", [2, 3, 4, 5, 6, 10])
def test_quadrants_are_what_adaptive_pooling_gives(side, rng):
    """An independent implementation; and the means are those of every map."""
    maps = [torch.rand(3, c, s, s, generator=rng) for c, s in ((4, 9), (5, 2 * side), (6, side), (7, 2))]
    features, quadrants, means = looks(NetSpec(), maps)
    torch.testing.assert_close(quadrants, F.adaptive_avg_pool2d(maps[2], 2).flatten(1))
    torch.testing.assert_close(means, maps[1].flatten(2).mean(2))
    assert torch.equal(features, maps[3].flatten(1))


@pytest.mark.parametrize("count", [40, 7])
def test_evening_is_the_formula(count, rng):
    """Against NumPy's singular values, of more images than numbers and of fewer."""
    x = torch.randn(count, 12, generator=rng, dtype=torch.float64) * torch.arange(1, 13)
    apart = x.numpy() - x.numpy().mean(0)
    _, singular, directions = np.linalg.svd(apart, full_matrices=False)
    variance, floor = singular**2 / count, FLOOR * (apart**2).mean()
    kept = ((variance + floor) / floor) ** -0.3
    wanted = apart - (apart @ directions.T * (1 - kept)) @ directions
    assert np.allclose(Evened.among(x, power=0.3)(x).numpy(), wanted, atol=1e-9)


def test_evened_by_half_a_power_all_that_is_loud_varies_alike(rng):
    x = torch.randn(5000, 6, generator=rng) * torch.tensor([100.0, 50.0, 30.0, 20.0, 20.0, 20.0])
    before, after = (torch.linalg.eigvalsh(torch.cov(y.T)) for y in (x, Evened.among(x, power=0.5)(x)))
    assert float(before[-1] / before[0]) > 20
    assert float(after[-1] / after[0]) < 3


def test_sight_weighs_its_looks_and_survives_a_file(rng):
    seen = [torch.randn(30, d, generator=rng) for d in (8, 6, 4)]
    for beside, weights in ((0.4, (1.0, 0.5, 0.25)), (1.5, (1.0, 0.75, 0.375))):
        sight = Sight.among(seen, beside=beside)
        lengths = [part.norm(dim=1) for part in sight(seen).split([8, 6, 4], dim=1)]
        for length, weight in zip(lengths, weights, strict=True):
            torch.testing.assert_close(length, torch.full((30,), weight))
        assert torch.equal(Sight.from_state(sight.state_dict())(seen), sight(seen))


def test_expected_answers_keep_their_sight_in_a_file(rng):
    seen = [torch.randn(30, d, generator=rng) for d in (8, 6, 4)]
    expected = ExpectedAnswers.centred_on(torch.randn(10, 8, generator=rng), torch.zeros(10), seen, apis=2)
    embedded = expected(seen)
    assert embedded.shape == (30, 8 + 6 + 4 + 10)
    assert torch.equal(ExpectedAnswers.from_state(expected.state_dict())(seen), embedded)
    plain = expected([seen[0]])  # the field's protocol: features and answers
    assert plain.shape == (30, 8 + 10)
    torch.testing.assert_close(plain[:, 8:], embedded[:, 18:])


def test_identical_images_do_not_divide_by_nothing():
    same = torch.ones(5, 3)
    assert torch.equal(Evened.among(same, power=0.5)(same), torch.zeros(5, 3))
