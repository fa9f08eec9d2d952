"""Estimators against functions whose gradients are known: linear ones, quadratic ones, and what an 8-bit grid does."""

from typing import Any

import pytest
import torch

from dfml.recovery.gradients import IMAGES_A_CALL, antithetic, snap, sphere
from dfml.recovery.inversion import ESTIMATORS
from dfml.recovery.subspace import orthogonal, subspace

SHAPE = (2, 4, 4)
D = 32
BLIND_TO_NOTHING = ("sphere", "antithetic", "orthogonal")
"""the estimators that see every direction of the image"""


def linear(slope):
    """f(x) = <slope, x> image by image; slope is (n, c, h, w)."""
    return lambda probes: (slope * probes).flatten(2).sum(2)


def quadratic(slope, curvature):
    """f(x) = <slope, x> + 1/2 curvature |x|^2, whose gradient is slope + curvature x."""
    return lambda probes: (slope * probes + curvature / 2 * probes.square()).flatten(2).sum(2)


def slopes(rng, n):
    return torch.randn(n, *SHAPE, generator=rng, dtype=torch.float64)


def greys(rng, n):
    """Images that no step of length 0.3 takes to white or black."""
    return 0.3 + 0.4 * torch.rand(n, *SHAPE, generator=rng, dtype=torch.float64)


@pytest.mark.parametrize("name", BLIND_TO_NOTHING)
@pytest.mark.parametrize("q", [1, 4, 16])
def test_on_a_linear_function_the_mean_is_the_gradient_and_the_variance_the_closed_form(name, q, rng):
    trials = 4000  # each image is one trial: all have the same slope, each its own directions
    slope = slopes(rng, 1)
    x = greys(rng, trials)
    estimate = ESTIMATORS[name](linear(slope), x, directions=q, radius=0.1, rng=rng)
    g2 = slope.square().sum()
    spread = (D / q - 1) if name == "orthogonal" else (D - 1) / q
    error = (estimate.gradient - slope).flatten(1).square().sum(1) / g2
    assert error.mean() == pytest.approx(spread, rel=0.1)
    # The mean of `trials` unbiased estimates is off by sqrt(spread / trials); four times that is generous.
    assert (estimate.gradient.mean(0) - slope[0]).norm() < 4 * (g2 * spread / trials).sqrt()
    assert torch.allclose(estimate.value, linear(slope)(x[None])[0])


@pytest.mark.parametrize("name", BLIND_TO_NOTHING)
def test_a_single_direction_gives_the_slope_along_it_times_d(name, rng):
    slope, x = slopes(rng, 3), greys(rng, 3)
    g = ESTIMATORS[name](linear(slope), x, directions=1, radius=0.3, rng=rng).gradient.flatten(1)
    u = g / g.norm(dim=1, keepdim=True)
    assert torch.allclose(g, D * (slope.flatten(1) * u).sum(1, keepdim=True) * u)


def test_forward_differences_err_by_the_curvature_and_central_ones_do_not(rng):
    slope, x, curvature, radius = slopes(rng, 5), greys(rng, 5), 3.0, 0.2
    f, truth = quadratic(slope, curvature), slope + curvature * x

    def from_same_directions(estimator, objective):
        return estimator(objective, x, directions=7, radius=radius, rng=torch.Generator().manual_seed(5)).gradient

    # f(x + r u) - f(x) = r <truth, u> + curvature r^2 / 2: a constant that does not know the direction.
    unit = from_same_directions(
        sphere, lambda probes: (probes - x).flatten(2).norm(dim=2) / radius
    )  # d/(q r) sum_i u_i
    expected = from_same_directions(sphere, linear(truth)) + curvature * radius**2 / 2 * unit
    assert torch.allclose(from_same_directions(sphere, f), expected)
    assert torch.allclose(from_same_directions(antithetic, f), from_same_directions(antithetic, linear(truth)))
    assert torch.allclose(from_same_directions(antithetic, f), from_same_directions(sphere, linear(truth)))


def test_as_many_orthogonal_directions_as_dimensions_are_exact(rng):
    slope, x = slopes(rng, 3), greys(rng, 3)
    estimate = orthogonal(linear(slope), x, directions=D, radius=0.05, rng=rng)
    assert torch.allclose(estimate.gradient, slope)


def test_subspace_is_the_projection_on_smooth_patterns(rng):
    """At resolution 2 of a 4x4 image; an orthonormal cosine basis from its definition, written out by hand."""
    slope, x = slopes(rng, 3), greys(rng, 3)
    t = torch.arange(4, dtype=torch.float64)
    waves = torch.stack([torch.ones(4, dtype=torch.float64) / 2, torch.cos(torch.pi * (2 * t + 1) / 8) / 2**0.5])
    onto = waves.T @ waves  # the projector on the two slowest waves of one axis
    truth = onto @ slope @ onto
    for q in (8, 19):  # exactly as many directions as dimensions, and more
        estimate = subspace(linear(slope), x, directions=q, radius=0.1, rng=rng, resolution=2)
        assert torch.allclose(estimate.gradient, truth)
    every = subspace(linear(slope), x, directions=D, radius=0.1, rng=rng, resolution=4)
    assert torch.allclose(every.gradient, slope)


@pytest.mark.parametrize("q", [1, 3])
def test_subspace_with_few_directions_is_unbiased_with_the_variance_of_orthogonal_ones(q, rng):
    trials, k = 4000, 8
    slope = subspace(linear(slopes(rng, 1)), greys(rng, 1), directions=k, radius=0.1, rng=rng, resolution=2)
    x = greys(rng, trials)
    g = subspace(linear(slope.gradient), x, directions=q, radius=0.1, rng=rng, resolution=2).gradient
    g2 = slope.gradient.square().sum()
    assert ((g - slope.gradient).flatten(1).square().sum(1) / g2).mean() == pytest.approx(k / q - 1, rel=0.1)
    assert (g.mean(0) - slope.gradient[0]).norm() < 4 * (g2 * (k / q - 1) / trials).sqrt()


@pytest.mark.parametrize(("name", "probes"), [("sphere", 1), ("antithetic", 2), ("orthogonal", 1), ("subspace", 1)])
def test_queries_are_counted_as_they_are_sent(name, probes, rng):
    sent = []

    def objective(images):
        sent.append(images.shape[0] * images.shape[1])
        return images.flatten(2).sum(2)

    x = greys(rng, 10)
    estimate = ESTIMATORS[name](objective, x, directions=30, radius=0.1, rng=rng)
    assert estimate.queries == sum(sent) == (30 * probes + 1) * 10
    assert max(sent) <= IMAGES_A_CALL  # memory does not grow with q, while
    assert len(sent) <= 2 + 30 * probes * 10 // 200  # calls are of a good size
    sent.clear()
    again = ESTIMATORS[name](objective, x, directions=30, radius=0.1, rng=rng, value=estimate.value)
    assert again.queries == sum(sent) == 30 * probes * 10


@pytest.mark.parametrize("name", ESTIMATORS)
def test_large_images_are_sent_in_smaller_calls(name, rng):
    """A call holds 64 MB: 16 float32 images of 1,000,000 numbers."""
    sent = []

    def objective(images):
        sent.append(images.shape[0] * images.shape[1])
        return images.flatten(2).mean(2)

    x = torch.rand(2, 1, 1000, 1000, generator=rng)
    ESTIMATORS[name](objective, x, directions=20, radius=0.1, rng=rng)
    assert max(sent) == 16


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_result_does_not_depend_on_how_many_directions_share_a_call(name, rng, monkeypatch):
    slope, x = slopes(rng, 3).float(), greys(rng, 3).float()
    results = []
    for images in (1, 7, 256):
        monkeypatch.setattr("dfml.recovery.gradients.IMAGES_A_CALL", images)
        monkeypatch.setattr("dfml.recovery.subspace.IMAGES_A_CALL", images)
        stream = torch.Generator().manual_seed(1)
        results.append(ESTIMATORS[name](quadratic(slope, 2.0), x, directions=9, radius=0.1, rng=stream).gradient)
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


@pytest.mark.parametrize("name", ESTIMATORS)
def test_on_a_grid_the_step_that_was_taken_is_the_direction(name, rng):
    """An objective behind 8-bit rounding is linear on the grid; the estimate must not see the rounding as noise."""
    slope = slopes(rng, 4)
    x = snap(torch.rand(4, *SHAPE, generator=rng, dtype=torch.float64), 256)
    behind_8_bits = lambda probes: linear(slope)((probes.clamp(0, 1) * 255).round() / 255)  # noqa: E731
    # One level is 0.004, an even share of the step 0.0035.
    options: dict[str, Any] = {"directions": 6, "radius": 0.02, "levels": 256}
    same = [torch.Generator().manual_seed(3) for _ in range(2)]
    seen = ESTIMATORS[name](behind_8_bits, x, rng=same[0], **options).gradient
    known = ESTIMATORS[name](linear(slope), x, rng=same[1], **options).gradient
    assert torch.allclose(seen, known)


@pytest.mark.parametrize("levels", [None, 256])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_white_and_black_pixels_have_their_whole_gradient(name, levels, rng):
    """Half of all steps would leave [0, 1] there and are cut off; of a linear f the mean estimate is its slope."""
    trials, q = 20_000, 4
    black_and_white = torch.tensor([0.0, 1.0, 0.2, 1.0], dtype=torch.float64).expand(1, *SHAPE)
    slope = slopes(rng, 1)
    if name == "subspace":
        slope = subspace(linear(slope), greys(rng, 1), directions=D, radius=0.1, rng=rng, resolution=2).gradient
    sent = []

    def objective(probes):
        sent.append((probes.min(), probes.max()))
        return linear(slope)(probes)

    options = {"directions": q, "radius": 0.1, "rng": rng, "levels": levels}
    options |= {"resolution": 2} if name == "subspace" else {}
    estimate = ESTIMATORS[name](objective, black_and_white.expand(trials, *SHAPE), **options).gradient
    assert min(low for low, _ in sent) == 0
    assert max(high for _, high in sent) == 1  # what an endpoint takes, to the border
    spread = (estimate - slope).flatten(1).square().sum(1).mean()
    assert (estimate.mean(0) - slope[0]).norm() < 4 * (spread / trials).sqrt() + 0.03 * slope.norm()
    at_white = (estimate.mean(0)[..., 1] * slope[0, ..., 1]).sum() / slope[0, ..., 1].square().sum()
    assert at_white == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_probe_lost_in_rounding_adds_nothing(name, rng):
    x = torch.full((2, *SHAPE), 100 / 255, dtype=torch.float64)
    estimate = ESTIMATORS[name](linear(torch.ones_like(x)), x, directions=3, radius=1e-3, rng=rng, levels=256)
    assert torch.equal(estimate.gradient, torch.zeros_like(x))


def test_snap_keeps_8_bit_images_and_rounds_the_rest_to_the_nearest():
    grid = torch.arange(256) / 255
    assert torch.equal(snap(grid.clone(), 256), grid)
    assert torch.allclose(
        snap(torch.tensor([-0.2, 0.4999 / 255, 0.5001 / 255, 3.0]), 256), torch.tensor([0, 0, 1 / 255, 1])
    )


def test_more_orthogonal_directions_than_dimensions_are_refused(rng):
    with pytest.raises(Exception, match="32 orthogonal directions, not 33"):
        orthogonal(linear(torch.ones(1, *SHAPE)), torch.zeros(1, *SHAPE), directions=33, radius=0.1, rng=rng)


def test_resolution_must_fit_the_image(rng):
    with pytest.raises(Exception, match="between 1 and the image side 4, not 5"):
        subspace(linear(torch.ones(1, *SHAPE)), torch.zeros(1, *SHAPE), directions=3, radius=1, rng=rng, resolution=5)
