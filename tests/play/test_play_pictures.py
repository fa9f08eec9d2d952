"""Files from strangers: large, broken, hostile, turned; each is taken as it looks, or refused in one sentence."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from dfml.data.decode import decode
from dfml.errors import DataError
from dfml.play.pictures import LARGEST_FILE, MOST_PIXELS, read_picture
from play.played import coloured

SHAPE = (3, 16, 16)


def read(tmp_path, content, name="a.png"):
    file = tmp_path / "0"
    file.write_bytes(content)
    return read_picture(file, number=0, name=name, shape=SHAPE)


def png_header(width, height):
    """A PNG that says it is so large, and holds next to nothing."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "BMP", "AVIF"])
def test_what_browsers_show_is_read_as_predict_reads_it(tmp_path, kind):
    picture = read(tmp_path, coloured("red", 0, kind=kind))
    assert np.array_equal(picture.pixels, decode(tmp_path / "0", 16))
    with Image.open(io.BytesIO(picture.thumbnail)) as small:
        assert (small.format, small.size) == ("WEBP", (40, 40))
        red, green, blue = np.asarray(small.convert("RGB")).mean((0, 1))
    assert red > 2 * max(green, blue)


@pytest.mark.parametrize("size", [(20_000, 20_000), (8001, 8000), (60_000, 60_000)])
def test_a_decompression_bomb_is_never_decoded(tmp_path, size):
    assert size[0] * size[1] > MOST_PIXELS
    with pytest.raises(DataError, match="pixels"):
        read(tmp_path, png_header(*size), "bomb.png")


def test_one_at_the_limit_is_only_broken(tmp_path):
    with pytest.raises(DataError, match=r"^small\.png cannot be read"):
        read(tmp_path, png_header(8000, 8000), "small.png")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"GIF89a",
        b"not a picture",
        b"%PDF-1.7",
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        b"\xff\xd8\xff\xe0" * 9,
    ],
)
def test_what_is_no_picture_gets_one_sentence_without_a_path(tmp_path, content):
    with pytest.raises(DataError, match="cannot be read as a picture") as told:
        read(tmp_path, content, "holiday.jpg")
    assert "holiday.jpg" in str(told.value)
    assert str(tmp_path) not in str(told.value)


def test_half_a_picture_is_refused_by_its_own_name(tmp_path):
    whole = coloured("red", 0, side=200, kind="JPEG")
    with pytest.raises(DataError) as told:
        read(tmp_path, whole[: len(whole) // 2], "half.jpg")
    assert str(told.value).startswith("half.jpg cannot be read")
    assert str(tmp_path) not in str(told.value)


def test_a_file_too_large_is_not_looked_into(tmp_path):
    with (tmp_path / "0").open("wb") as file:
        file.truncate(LARGEST_FILE + 1)
    with pytest.raises(DataError, match="more than 32 MB"):
        read_picture(tmp_path / "0", number=0, name="a.png", shape=SHAPE)


@pytest.mark.parametrize("announced", [True, False])
def test_the_server_stops_reading_one_too_large_and_keeps_nothing(play, announced):
    played = play()
    parts = [bytes(1 << 20)] * ((LARGEST_FILE >> 20) + 1)
    content = b"".join(parts) if announced else iter(parts)
    told = played.client.post("api/pictures", content=content, params={"name": "large.png"}).json()
    assert told == {"problem": "large.png has more than 32 MB; make it smaller first"}
    assert list(played.studio.album.folder.iterdir()) == []
    assert played.ask("api/state")["pictures"] == []


def test_a_name_is_cut_and_keeps_no_control_characters(tmp_path):
    picture = read(tmp_path, coloured("red", 0), "a\x1b[31m\n" + "x" * 500)
    assert len(picture.name) <= 80
    assert picture.name.isprintable()
