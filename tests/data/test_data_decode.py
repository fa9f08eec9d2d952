"""Each picture is one whose colours are known without decoding it."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dfml.data import decode
from dfml.errors import DataError


def save(image: Image.Image, path: Path, **options: object) -> Path:
    image.save(path, **options)  # type: ignore[arg-type]
    return path


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


@pytest.mark.parametrize("fit", ["crop", "stretch"])
def test_an_image_of_the_right_size_is_not_touched(tmp_path, fit):
    pixels = noise(32, 32, 3)
    read = decode(save(Image.fromarray(pixels), tmp_path / "a.png"), 32, fit=fit)
    assert read.dtype == np.uint8
    assert (read == pixels.transpose(2, 0, 1)).all()


def test_grey_becomes_three_equal_channels_or_stays_one(tmp_path):
    pixels = noise(16, 16)
    path = save(Image.fromarray(pixels), tmp_path / "a.png")
    assert (decode(path, 16) == pixels).all()
    assert decode(path, 16).shape == (3, 16, 16)
    assert (decode(path, 16, channels=1) == pixels[None]).all()


def test_colour_as_one_channel_is_its_luma(tmp_path):
    path = save(Image.new("RGB", (8, 8), (200, 100, 50)), tmp_path / "a.png")
    assert abs(int(decode(path, 8, channels=1)[0, 0, 0]) - (0.299 * 200 + 0.587 * 100 + 0.114 * 50)) <= 1


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_transparency_lies_on_white(tmp_path, mode):
    black = (0, 0, 0) if mode == "RGBA" else (0,)
    image = Image.new(mode, (3, 3))
    for x, alpha in enumerate((0, 128, 255)):
        for y in range(3):
            image.putpixel((x, y), (*black, alpha))
    row = decode(save(image, tmp_path / "a.png"), 3)[0, 0]
    assert row[0] == 255
    assert abs(int(row[1]) - (255 - 128)) <= 1
    assert row[2] == 0


def test_hidden_colours_of_transparent_pixels_do_not_bleed_when_resized(tmp_path):
    image = Image.new("RGBA", (64, 64), (255, 0, 0, 0))  # red, but nothing of it shows
    assert (decode(save(image, tmp_path / "a.png"), 16) == 255).all()


def test_palettes_with_and_without_transparency(tmp_path):
    image = Image.new("P", (2, 2))
    image.putpalette([10, 20, 30, 40, 50, 60] + [0] * 762)
    image.putpixel((1, 0), 1)
    read = decode(save(image, tmp_path / "a.png"), 2)
    assert read[:, 0, 0].tolist() == [10, 20, 30]
    assert read[:, 0, 1].tolist() == [40, 50, 60]
    read = decode(save(image, tmp_path / "b.png", transparency=1), 2)
    assert read[:, 0, 0].tolist() == [10, 20, 30]
    assert read[:, 0, 1].tolist() == [255, 255, 255]


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_sixteen_bits_are_scaled_and_not_clipped(tmp_path, suffix):
    values = np.array([[0, 257, 25700, 65535]] * 4, dtype=np.uint16)  # 257 k is exactly the 8-bit value k
    path = save(Image.fromarray(values), tmp_path / f"a.{suffix}")
    assert decode(path, 4)[0, 0].tolist() == [0, 1, 100, 255]


def test_floating_point_images(tmp_path):
    unit = save(Image.fromarray(np.array([[0, 0.2], [0.6, 1]], dtype=np.float32)), tmp_path / "unit.tif")
    assert decode(unit, 2)[0].tolist() == [[0, 51], [153, 255]]
    wild = save(Image.fromarray(np.array([[0, 0.2], [0.6, 1e6]], dtype=np.float32)), tmp_path / "wild.tif")
    with pytest.raises(DataError, match=r"wild\.tif .*from 0 to 1e\+06"):
        decode(wild, 2)


def test_cmyk_is_colour(tmp_path):
    cyan = decode(save(Image.new("CMYK", (16, 16), (255, 0, 0, 0)), tmp_path / "a.jpg", quality=100), 16)
    assert cyan[0].max() < 10
    assert cyan[1:].min() > 245


# What each flag says of the pixels as stored (EXIF 2.3, 4.6.4): undoing it must give the scene back.
STORED = {
    1: lambda scene: scene,
    2: lambda scene: scene[:, ::-1],
    3: lambda scene: scene[::-1, ::-1],
    4: lambda scene: scene[::-1],
    5: lambda scene: scene.T,
    6: lambda scene: np.rot90(scene, 1),
    7: lambda scene: scene[::-1, ::-1].T,
    8: lambda scene: np.rot90(scene, -1),
}


@pytest.mark.parametrize("orientation", STORED)
@pytest.mark.parametrize("depth", [8, 16])
def test_exif_rotation_is_applied(tmp_path, orientation, depth):
    scene = np.array([[0, 50], [100, 200]], dtype=np.uint8)
    stored = np.ascontiguousarray(STORED[orientation](scene))
    if depth == 16:
        stored = stored.astype(np.uint16) * 257
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = save(Image.fromarray(stored), tmp_path / "a.png", exif=exif)
    assert decode(path, 2, channels=1)[0].tolist() == scene.tolist()


def test_crop_keeps_the_middle_and_stretch_keeps_everything(tmp_path):
    pixels = np.zeros((20, 60, 3), dtype=np.uint8)
    pixels[:, 20:40] = 255  # the middle square is white
    path = save(Image.fromarray(pixels), tmp_path / "a.png")
    assert (decode(path, 20, fit="crop") == 255).all()
    assert abs(decode(path, 20, fit="stretch").mean() / 255 - 1 / 3) < 0.02


def test_shrinking_is_anti_aliased(tmp_path):
    checks = (np.indices((64, 64)).sum(0) % 2 * 255).astype(np.uint8)  # picking pixels would give 0 or 255
    small = decode(save(Image.fromarray(checks), tmp_path / "a.png"), 8)
    assert np.abs(small.astype(int) - 127).max() < 8


def test_extreme_proportions(tmp_path):
    assert decode(save(Image.new("RGB", (1, 300)), tmp_path / "a.png"), 32).shape == (3, 32, 32)


@pytest.mark.parametrize("content", [b"", b"not an image", b"\x89PNG\r\n\x1a\n" + b"\0" * 40])
def test_rubbish_is_a_sentence_that_names_the_file(tmp_path, content):
    path = tmp_path / "broken.png"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"broken\.png cannot be read as an image .*replace or remove it") as caught:
        decode(path, 32)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("suffix", ["png", "jpg", "gif", "webp", "tif"])
def test_a_truncated_file_is_refused(tmp_path, suffix):
    path = save(Image.fromarray(noise(64, 64, 3)), tmp_path / f"cut.{suffix}")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(DataError, match=rf"cut\.{suffix} cannot be read"):
        decode(path, 32)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"gone\.png cannot be read as an image \(No such file"):
        decode(tmp_path / "gone.png", 32)
