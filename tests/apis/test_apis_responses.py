"""Our reading of HTTP against the standard library's, however the bytes arrive; our PNG files against Pillow."""

import contextlib
import http.client
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from dfml.apis.pixels import png
from dfml.apis.remote.responses import MAX_BYTES, NoHttp, Response, read_response
from dfml.errors import Garbled

GOOD = {
    "length": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: b c \r\n\r\nhello",
    "empty": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    "chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3\r\nhel\r\n2;note=1\r\nlo\r\n0\r\nTrailer: x\r\n\r\n",
    "until the end": b"HTTP/1.0 503 \r\nContent-Type: text/html\r\n\r\n<html>\r\n\r\n</html>",
    "no content": b"HTTP/1.1 204 No Content\r\n\r\n",
    "after 100": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}",
    "close": b"HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 1\r\n\r\nx",
}
REUSABLE = {"length", "empty", "chunks", "no content", "after 100"}


def read(parts: list[bytes]) -> Response:
    """Read what comes in these parts, then ends."""
    coming = iter([part for part in parts if part])
    return read_response(lambda: next(coming, b""))


def by_the_standard_library(data: bytes) -> tuple[int, bytes]:
    class Socket:
        def makefile(self, mode: str) -> io.BytesIO:
            return io.BytesIO(data)

    response = http.client.HTTPResponse(Socket())  # type: ignore[arg-type]
    response.begin()
    return response.status, response.read()


@pytest.mark.parametrize("name", GOOD)
def test_responses_are_read_as_the_standard_library_reads_them_wherever_they_are_cut(name):
    data = GOOD[name]
    expected = by_the_standard_library(data)
    for cut in range(len(data) + 1):
        response = read([data[:cut], data[cut:]])
        assert (response.status, response.body) == expected
        assert response.reusable == (name in REUSABLE)
    assert read([data[at : at + 1] for at in range(len(data))]).body == expected[1]


def test_headers_have_small_names_and_trimmed_values():
    assert read([GOOD["length"]]).headers == {"content-length": "5", "x-a": "b c"}


@pytest.mark.parametrize("name", ["length", "chunks", "after 100", "close"])
def test_a_response_that_ends_early_is_none(name):
    data = GOOD[name]
    for cut in range(len(data)):
        with pytest.raises(NoHttp):
            read([data[:cut]])


@pytest.mark.parametrize(
    "data",
    [
        b"hello\r\n\r\n",
        b"HTTP/2 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 999 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        b"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxyz\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno header\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: b\r\n folded\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: " + b"b" * 200_000,
    ],
)
def test_what_is_ambiguous_or_no_http_is_refused(data):
    with pytest.raises(NoHttp):
        read([data])


@pytest.mark.parametrize(
    "head",
    [
        f"HTTP/1.1 200 OK\r\nContent-Length: {MAX_BYTES + 1}\r\n\r\n".encode(),
        f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{MAX_BYTES + 1:x}\r\n".encode(),
    ],
)
def test_what_is_too_large_is_not_even_read(head):
    def receive():
        receive.calls += 1
        assert receive.calls == 1, "more was read than the head"
        return head

    receive.calls = 0
    with pytest.raises(Garbled, match="larger than 16 MB"):
        read_response(receive)


def test_an_answer_without_an_end_is_given_up():
    with pytest.raises(Garbled, match="larger than 16 MB"):
        read([b"HTTP/1.1 200 OK\r\n\r\n", *[b"x" * (1 << 20)] * 20])


@settings(max_examples=300, deadline=None)
@given(st.lists(st.binary(max_size=40), max_size=8), st.sampled_from(sorted(GOOD)), st.integers(0, 200))
def test_rubbish_raises_nothing_but_our_own(parts, name, keep):
    with contextlib.suppress(NoHttp, Garbled):
        read([GOOD[name][:keep], *parts])


@pytest.mark.parametrize("shape", [(32, 32, 3), (1, 1, 1), (5, 7, 3), (84, 84, 1)])
def test_png_files_hold_the_pixels(shape):
    pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    with Image.open(io.BytesIO(png(pixels))) as image:
        assert image.format == "PNG"
        assert image.mode == ("L" if shape[2] == 1 else "RGB")
        assert np.array_equal(np.asarray(image).reshape(shape), pixels)
