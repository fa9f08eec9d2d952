"""A folder of pictures without labels."""

import numpy as np
import pytest
from PIL import Image

from dfml.data.unlabelled import read_unlabelled
from dfml.errors import DataError


@pytest.fixture
def folder(tmp_path):
    """Nine pictures of one grey each, of any size and depth of folder, among other files."""
    places = [tmp_path, tmp_path / "cats", tmp_path / "cats" / "old", tmp_path / ".hidden", tmp_path / "__MACOSX"]
    for number, place in enumerate(places):
        place.mkdir(exist_ok=True)
        for inside in range(3):
            grey = 20 * (3 * number + inside) + 5
            Image.new("L", (30 + number, 50), grey).save(place / f"{inside}.png")
    (tmp_path / "notes.txt").write_text("stray")
    return tmp_path


def test_all_pictures_are_found_in_an_order_that_does_not_change(folder):
    first, again = (read_unlabelled(folder, size=16, channels=3) for _ in range(2))
    assert first.shape == (9, 3, 16, 16)
    assert first.dtype.itemsize == 1
    assert np.array_equal(first.numpy(), again.numpy())
    greys = first[:, 0, 0, 0].tolist()
    assert sorted(greys) == [20 * k + 5 for k in range(9)]
    assert greys != sorted(greys), "folders are classes: a budget for the first few must not mean one class"


def test_grey_apis_get_grey_pictures(folder):
    assert read_unlabelled(folder, size=20, channels=1).shape == (9, 1, 20, 20)


def test_what_cannot_be_read_is_named(folder, tmp_path):
    with pytest.raises(DataError, match="is no folder"):
        read_unlabelled(tmp_path / "missing", size=16, channels=3)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="holds no images"):
        read_unlabelled(tmp_path / "empty", size=16, channels=3)
    (folder / "cats" / "broken.png").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"broken\.png"):
        read_unlabelled(folder, size=16, channels=3)
