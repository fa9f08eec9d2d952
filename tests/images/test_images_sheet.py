"""A contact sheet shows every image, unchanged, where a reader would look for it."""

import numpy as np
import pytest
import torch

from dfml.errors import ConfigError
from dfml.images.sheet import contact_sheet


def test_images_stand_row_by_row_and_pixels_are_unchanged(tmp_path):
    images = torch.randint(256, (7, 3, 4, 5), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    sheet = contact_sheet(images, 3, zoom=2, gap=1)
    assert sheet.size == (3 * 11 + 1, 3 * 9 + 1)
    sheet.save(tmp_path / "sheet.png")
    pixels = np.asarray(sheet)
    fifth = pixels[10:18, 12:22][::2, ::2]  # row 1, column 1
    assert np.array_equal(fifth, images[4].permute(1, 2, 0).numpy())
    assert (pixels[19:, 12:] == 255).all()  # after the seventh: blank


def test_grey_images_are_shown_grey():
    pixels = np.asarray(contact_sheet(torch.full((1, 1, 2, 2), 9, dtype=torch.uint8), gap=0, zoom=1))
    assert (pixels == 9).all()
    assert pixels.shape == (2, 2, 3)


@pytest.mark.parametrize("wrong", [torch.zeros(2, 3, 4, 4), torch.zeros(2, 2, 4, 4, dtype=torch.uint8)])
def test_anything_else_is_refused(wrong):
    with pytest.raises(ConfigError, match="uint8"):
        contact_sheet(wrong)
