import unicodedata
from pathlib import Path

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.ft2font import FT2Font

from dfml.data import PARTS, open_dataset
from dfml.data.cache import cached
from dfml.data.glyphs import FONTS, Glyphs, draw, silhouette
from dfml.data.scripts import SCRIPTS, characters, class_name
from dfml.rng import stream

EVERY = "".join(map(characters, PARTS))


def test_there_are_enough_classes_in_every_part():
    assert len(EVERY) >= 200
    assert len(characters("train")) >= 120
    assert len(characters("val")) >= 40
    assert len(characters("test")) >= 40
    assert len(set(EVERY)) == len(EVERY)
    assert len(set(map(class_name, EVERY))) == len(EVERY)


def test_parts_share_no_script():
    # Unicode's own names say to which script a character belongs.
    for part in PARTS:
        for script, letters in SCRIPTS[part].items():
            assert all(unicodedata.name(letter).lower().startswith(script) for letter in letters)
    scripts = [script for part in PARTS for script in SCRIPTS[part]]
    assert len(set(scripts)) == len(scripts)
    assert all(len(letters) >= 5 for part in PARTS for letters in SCRIPTS[part].values())


@pytest.mark.parametrize("font", FONTS)
def test_the_fonts_have_every_character(font):
    file = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / font
    known = FT2Font(str(file)).get_charmap()
    assert [letter for letter in EVERY if ord(letter) not in known] == []


@pytest.mark.parametrize("font", FONTS)
def test_silhouettes_are_there_and_differ(font):
    shapes = torch.stack([silhouette(letter, font, 32) for letter in EVERY]).flatten(1)
    assert (shapes.amax(1) > 0.5).all()
    alike = torch.corrcoef(shapes).fill_diagonal_(-1)
    assert alike.max() < 0.93
    part = torch.tensor([PARTS.index(part) for part in PARTS for _ in characters(part)])
    assert alike[part.unsqueeze(0) != part.unsqueeze(1)].max() < 0.89  # no test character that training has seen


def test_the_seed_decides_everything_and_threads_nothing():
    once = draw("A", 20, size=32, rng=stream(0, "x"))
    torch.set_num_threads(2)
    assert np.array_equal(draw("A", 20, size=32, rng=stream(0, "x")), once)
    assert not np.array_equal(draw("A", 20, size=32, rng=stream(1, "x")), once)


@pytest.mark.parametrize("size", [28, 32, 33, 84])
def test_any_size_is_colourful_and_varied(size):
    images = draw("Ж", 12, size=size, rng=stream(0, "x"))
    assert images.shape == (12, 3, size, size)
    assert images.dtype == np.uint8
    assert len(np.unique(images.reshape(12, -1), axis=0)) == 12
    assert (images.std((1, 2, 3)) > 10).all()
    assert (images[:, 0] != images[:, 1]).mean() > 0.5


def test_ink_stands_out_from_paper():
    # The same random stream with another letter gives the same paper: where the two differ, one of them has its ink.
    one, other = (draw(letter, 200, size=32, rng=stream(0, "x")).astype(float) / 255 for letter in "ШO")
    luma = np.tensordot(one - other, [0.299, 0.587, 0.114], axes=(1, 0))
    assert (np.abs(luma).max((1, 2)) > 0.15).mean() > 0.95


def test_an_image_set_of_glyphs():
    images = cached(Glyphs(part="val", images_per_class=3, seed=5))
    assert images.classes[0] == "georgian an"
    assert images.counts == (3,) * len(characters("val"))
    first = draw(characters("val")[0], 3, size=32, rng=stream(5, "glyphs", characters("val")[0], 32))
    assert (images.images(0) == first).all()
    other = cached(Glyphs(part="val", images_per_class=3, seed=6))
    assert other.path != images.path


@pytest.mark.slow
def test_the_default_glyphs_open():
    images = open_dataset("glyphs", "train")
    assert images.shape == (3, 32, 32)
    assert images.counts == (120,) * len(characters("train"))


def test_class_means_of_pixels_are_a_poor_classifier_but_better_than_chance():
    """There is a signal, and it takes more than a template to read it."""
    letters = "AKSπΞ"
    images = np.stack([draw(letter, 120, size=32, rng=stream(0, letter)) for letter in letters]).mean(2)
    ink = np.abs(images - np.median(images, axis=(2, 3), keepdims=True)).reshape(5, 120, -1)
    means = ink[:, :96].mean(1)
    guess = ((ink[:, 96:, None] - means) ** 2).sum(-1).argmin(-1)
    accuracy = (guess == np.arange(5)[:, None]).mean()
    assert 0.25 < accuracy < 0.9
