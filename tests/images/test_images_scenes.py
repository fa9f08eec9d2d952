"""The parts of the prior, each against something known: spectra, symmetry, painting order."""

import math

import torch

from dfml.images.colours import palette
from dfml.images.layouts import Layout, leaves, things
from dfml.images.scenes import Surface, paint
from dfml.images.textures import Textures, noise, pink


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def test_noise_has_the_slope_it_promises():
    x = noise(400, 64, low=1.5, high=1.5, rng=rng())[:, 0]
    power = torch.fft.rfft2(x).abs().square().mean(0)[0]
    slope = torch.log(power[2] / power[16]) / math.log(8)
    assert abs(slope - 3.0) < 0.3  # power falls as the square of the amplitude


def test_noise_has_no_mean_and_unit_variance():
    x = noise(9, 32, low=0.5, high=3, rng=rng(), planes=2)
    torch.testing.assert_close(x.mean((-2, -1)), torch.zeros(9, 2), atol=1e-4, rtol=0)
    torch.testing.assert_close(x.std((-2, -1)), torch.ones(9, 2), atol=1e-4, rtol=0)


def test_smoother_textures_are_cut_from_smoother_sheets():
    textures = Textures(32, rng=rng())
    rough, smooth = textures.cut(64, low=0.7, high=0.9), textures.cut(64, low=2.9, high=3.2)
    assert rough.shape == (64, 32, 32)
    assert rough.diff(dim=-1).std() > 4 * smooth.diff(dim=-1).std()


def test_images_and_palettes_stay_in_range():
    images = pink(20, 16, rng=rng())
    assert images.min() >= 0
    assert images.max() <= 1
    colours = palette(50, 6, rng=rng())
    assert colours.shape == (50, 6, 3)
    assert colours.min() > 0
    assert colours.max() <= 1


def test_layouts_describe_parts_that_can_be_painted():
    for layout in (leaves(40, most=9, size=32, rng=rng()), things(40, size=32, rng=rng())):
        shapes = {tuple(value.shape) for value in vars(layout).values()}
        assert len(shapes) == 1
        assert (layout.radius > 0).all()
        assert (layout.aspect > 0).all()
        assert ((layout.opacity >= 0) & (layout.opacity <= 1)).all()


def test_every_thing_has_a_body_within_the_image():
    layout = things(200, size=32, rng=rng())
    body = 1 + 5  # the shadow and the limbs lie behind it
    assert (layout.opacity[:, body] == 1).all()
    assert (layout.x[:, body].abs() < 0.5).all()
    assert (layout.y[:, body].abs() < 0.5).all()


def flat_discs(radius, colour, opacity):
    """Plain, sharp, centred discs: `radius` and `opacity` (n, parts), `colour` (n, parts, 3)."""
    zero = torch.zeros_like(radius)
    layout = Layout(zero, zero, radius, zero + 1, zero, zero, zero, zero, zero, zero + 1e4, opacity, zero.long())
    return layout, Surface(colour, colour, zero, zero, zero, zero, zero)


def test_parts_are_painted_in_order_and_absent_ones_are_not():
    """Two images with different numbers of discs, against a disc drawn by hand."""
    radius = torch.tensor([[0.9, 0.5, 0.3], [0.9, 0.5, 0.3]])
    colour = torch.tensor([[[0.9] * 3, [0.5] * 3, [0.1] * 3]] * 2)
    layout, surface = flat_discs(radius, colour, torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0]]))
    canvas = torch.full((2, 3, 32, 32), 0.7)
    painted = paint(canvas, layout, surface, textures=Textures(32, rng=rng()), rng=rng(4))
    line = (torch.arange(32) + 0.5) / 16 - 1
    distance = (line.view(-1, 1).square() + line.square()).sqrt()
    first = torch.where(distance < 0.5, 0.5, 0.7)
    second = torch.where(distance < 0.3, 0.1, torch.where(distance < 0.9, 0.9, 0.7))
    shade = painted / torch.stack([first, second]).unsqueeze(1)
    assert (shade[0, :, distance > 0.55] == 1).all()  # untouched background
    assert (shade - 1).abs().max() < 0.46  # the light changes a colour by its strength at most
    assert shade[1].mean() - 1 < 0.02
