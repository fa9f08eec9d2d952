"""The prior: a stream that never depends on how it is read, in any shape, that looks like no other image of its own."""

import numpy as np
import pytest
import torch

from dfml.errors import ConfigError
from dfml.images.prior import CHUNK, Prior, prior

KINDS = pytest.mark.parametrize("kind", ["painted", "mixed"])


@KINDS
def test_an_image_does_not_depend_on_how_many_are_asked_for(kind):
    long = prior(CHUNK + 40, seed=3, kind=kind)
    assert torch.equal(prior(7, seed=3, kind=kind), long[:7])
    assert torch.equal(Prior(seed=3, kind=kind).images(CHUNK - 5, 20), long[CHUNK - 5 : CHUNK + 15])


def test_batches_of_any_size_read_the_same_stream():
    whole, stream = prior(CHUNK + 44, seed=5), Prior(seed=5).batches(100)
    assert torch.equal(torch.cat([next(stream) for _ in range(3)]), whole[:300])


@KINDS
def test_the_global_generator_is_neither_read_nor_moved(kind):
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = prior(4, seed=0, kind=kind)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert torch.equal(prior(4, seed=0, kind=kind), first)


def test_seeds_and_kinds_give_different_images_and_no_image_comes_twice():
    drawn = [prior(300, seed=0), prior(300, seed=1), prior(300, seed=0, kind="mixed")]
    assert len(np.unique(torch.cat(drawn).flatten(1).numpy(), axis=0)) == 900


@KINDS
@pytest.mark.parametrize(("size", "channels"), [(8, 1), (28, 1), (32, 3), (33, 3), (84, 3), (97, 1), (224, 3)])
def test_any_size_and_channel_count(size, channels, kind):
    images = prior(3, size=size, channels=channels, seed=0, kind=kind)
    assert images.dtype == torch.uint8
    assert images.shape == (3, channels, size, size)


def test_nothing_asked_gives_nothing():
    assert prior(0, seed=0).shape == (0, 3, 32, 32)


@pytest.mark.parametrize(
    ("wrong", "says"), [({"size": 4}, "too small"), ({"channels": 2}, "1 channel"), ({"kind": "odd"}, "painted, mixed")]
)
def test_shapes_that_cannot_be_drawn_are_refused(wrong, says):
    with pytest.raises(ConfigError, match=says):
        Prior(seed=0, **wrong)


@KINDS
def test_the_images_are_as_bright_and_as_smooth_as_photographs(kind):
    """True of photographs at large: spread brightness, grey above colour, neighbours alike, power falling with f."""
    x = prior(1024, seed=9, kind=kind).double() / 255
    assert 0.35 < x.mean() < 0.6
    assert 0.15 < x.std() < 0.35
    grey = x.mean(1, keepdim=True)
    assert (x - grey).square().mean() < 0.35 * (grey - grey.mean()).square().mean()
    centred = (grey - grey.mean((-2, -1), keepdim=True)).squeeze(1)
    neighbours = (centred[..., 1:] * centred[..., :-1]).mean() / centred.square().mean()
    assert neighbours > 0.75
    power = torch.fft.rfft2(centred).abs().square().mean(0)
    slope = torch.log(power[0, 1] / power[0, 12]) / np.log(12)
    assert 1.2 < slope < 3.2  # photographs: about 2


@KINDS
def test_hardly_any_image_is_blank(kind):
    contrast = prior(1024, seed=2, kind=kind).float().flatten(1).std(1)
    assert (contrast < 3).float().mean() < 0.02


def test_large_images_are_as_bright_as_colourful_and_as_smooth_as_small_ones():
    """Drawn small and enlarged, they are other pictures of the same kind; made small again they are alike."""
    small, large = (prior(CHUNK, seed=4, size=size).float() / 255 for size in (80, 160))
    large = torch.nn.functional.avg_pool2d(large, 2)
    for statistic in (
        lambda x: x.mean(),
        lambda x: x.flatten(1).std(1).mean(),
        lambda x: (x - x.mean(1, keepdim=True)).square().mean().sqrt(),
        lambda x: x.mean((-2, -1)).std(),
        lambda x: (x[..., 1:] - x[..., :-1]).abs().mean(),
    ):
        assert statistic(large).item() == pytest.approx(statistic(small).item(), rel=0.25)


def test_large_images_have_detail_of_their_own_size():
    """Enlarging alone leaves neighbours in a row that lie on a line; grain does not."""
    x = prior(32, seed=4, size=224).float()
    bend = (x[..., 2:] - 2 * x[..., 1:-1] + x[..., :-2]).abs().mean((1, 2, 3))
    assert (bend > 2).float().mean() > 0.5


def test_a_large_image_does_not_depend_on_how_many_are_asked_for():
    assert torch.equal(prior(2, seed=3, size=128), Prior(seed=3, size=128).images(0, CHUNK + 1)[:2])
    assert not torch.equal(prior(2, seed=3, size=128), prior(2, seed=5, size=128))


@KINDS
def test_pictures_do_not_depend_on_the_number_of_cores(kind):
    """Else a run that is resumed elsewhere would pay for some of them again."""
    before, drawn = torch.get_num_threads(), []
    try:
        for cores in (1, 2, 3):
            torch.set_num_threads(cores)
            drawn.append(prior(1024, seed=5, kind=kind))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(drawn[0], drawn[1])
    assert torch.equal(drawn[0], drawn[2])
