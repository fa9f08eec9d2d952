"""Our PNG files against Pillow."""

import io

import numpy as np
import pytest
from PIL import Image

from dfml.apis.pixels import png


@pytest.mark.parametrize("shape", [(32, 32, 3), (1, 1, 1), (5, 7, 3), (84, 84, 1), (84, 84, 3)])
def test_png_files_hold_the_pixels(shape):
    pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    with Image.open(io.BytesIO(png(pixels))) as image:
        assert image.format == "PNG"
        assert image.mode == ("L" if shape[2] == 1 else "RGB")
        assert np.array_equal(np.asarray(image).reshape(shape), pixels)
