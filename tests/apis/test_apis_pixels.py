"""Pixels as levels, and our PNG files against Pillow."""

import io

import numpy as np
import pytest
from PIL import Image

from dfml.apis.pixels import eight_bit, png


@pytest.mark.parametrize("shape", [(32, 32, 3), (1, 1, 1), (5, 7, 3), (84, 84, 1), (84, 84, 3)])
def test_png_files_hold_the_pixels(shape):
    pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    with Image.open(io.BytesIO(png(pixels))) as image:
        assert image.format == "PNG"
        assert image.mode == ("L" if shape[2] == 1 else "RGB")
        assert np.array_equal(np.asarray(image).reshape(shape), pixels)


@pytest.mark.parametrize("shape", [(0, 3, 32, 32), (1, 1, 16, 16), (100, 3, 32, 32), (3, 3, 300, 300)])
def test_every_value_becomes_its_nearest_level(shape):
    levels = np.random.default_rng(0).integers(0, 256, shape)
    off = np.random.default_rng(1).uniform(-0.49, 0.49, shape)
    found = eight_bit(((levels + off).clip(0, 255) / 255).astype(np.float32))
    assert found.dtype == np.uint8
    assert np.array_equal(found, levels)
