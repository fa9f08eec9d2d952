"""One exchange against whatever servers do: it ends in the right answer or in a fitting error, and always in time."""

import gzip
import threading
import time
import zlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rawserver import raw_server, reset, take_all

from dfml.apis.remote.host import MAX_BYTES, Host, HttpRequest
from dfml.errors import ApiError, Garbled, Unreachable

SECONDS = 20.0
"""for what has to end by itself: far more than that takes"""
SHORT = 1.0
"""for what would not end"""
HELLO = b"hello"


def post(server, *, seconds=SECONDS, body=b"?", headers=()):
    host = Host(server.url)
    try:
        return host.send(HttpRequest("POST", server.url + "/x", dict(headers), body), seconds=seconds)
    finally:
        host.close()


def saying(*parts, then="close"):
    """Take the request, say these bytes, and close, keep or reset the connection."""

    def play(wire, data):
        take_all(wire, data)
        for part in parts:
            wire.sendall(part)
        if then == "reset":
            reset(wire)
        elif then == "close":
            wire.close()

    return play


def with_body(*lines, body=HELLO, length=True):
    """A response with these header lines."""
    own = [b"Content-Length: %d" % len(body)] if length else []
    return b"\r\n".join([b"HTTP/1.1 200 OK", *lines, *own, b"", body])


raw_deflate = zlib.compressobj(wbits=-zlib.MAX_WBITS)
RIGHT = {
    "small letters": b"HTTP/1.1 200 ok\r\ncontent-length:5\r\n\r\nhello",
    "no reason": b"HTTP/1.1 200\r\nContent-Length: 5\r\n\r\nhello",
    "bare line feeds": b"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello",
    "folded": with_body(b"X-Long: one\r\n two\r\n\tthree"),
    "the same length twice": with_body(b"Content-Length: 5"),
    "many lengths in one": with_body(b"Content-Length: 5, 5", length=False),
    "100": b"HTTP/1.1 100 Continue\r\n\r\n" + with_body(),
    "100 with headers": b"HTTP/1.1 100 Continue\r\nX: y\r\n\r\n" * 3 + with_body(),
    "102 and 103": b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </s>\r\n\r\n" + with_body(),
    "HTTP/1.0 to the end": b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nhello",
    "HTTP/1.0 with a length": b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "HTTP/1.1 to the end": b"HTTP/1.1 200 OK\r\n\r\nhello",
    "chunks": with_body(
        b"Transfer-Encoding: chunked", body=b"3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n", length=False
    ),
    "chunks with extensions and trailers": with_body(
        b"Transfer-Encoding: Chunked",
        body=b'3;a="b;c"\r\nhel\r\n002 ; x\r\nlo\r\n0;end\r\nExpires: never\r\nX-Sum: 1\r\n\r\n',
        length=False,
    ),
    "gzip": with_body(b"Content-Encoding: gzip", body=gzip.compress(HELLO)),
    "x-gzip": with_body(b"Content-Encoding: X-GZIP", body=gzip.compress(HELLO)),
    "deflate": with_body(b"content-encoding: deflate", body=zlib.compress(HELLO)),
    "raw deflate": with_body(b"Content-Encoding: deflate", body=raw_deflate.compress(HELLO) + raw_deflate.flush()),
    "gzip in chunks": with_body(
        b"Content-Encoding: gzip",
        b"Transfer-Encoding: chunked",
        body=b"%x\r\n%b\r\n0\r\n\r\n" % (len(gzip.compress(HELLO, mtime=0)), gzip.compress(HELLO, mtime=0)),
        length=False,
    ),
    "identity": with_body(b"Content-Encoding: identity"),
    "a NUL in a header": with_body(b"X-Odd: a\0b"),
    "800 spaces and a NUL": with_body(b"X-Odd:" + b" " * 800 + b"\0"),
    "60,000 spaces and a NUL": with_body(b"X-Odd: x" + b" " * 60_000 + b"\0" + b" " * 5000),
    "letters beyond ASCII": with_body("X-Odd: ünï".encode("latin-1"), "X-Utf: é€".encode()),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("pieces", ["at once", "byte by byte"])
def test_the_right_answer_is_read(name, pieces):
    said = RIGHT[name]
    if pieces == "byte by byte" and len(said) > 2000:
        said = [said[at : at + 999] for at in range(0, len(said), 999)]
    else:
        said = [said] if pieces == "at once" else [said[at : at + 1] for at in range(len(said))]
    with raw_server(saying(*said)) as server:
        reply = post(server)
    assert (reply.status, reply.body) == (200, HELLO)


def test_header_names_are_small_and_values_on_one_line():
    with raw_server(saying(RIGHT["folded"])) as server:
        headers = post(server).headers
    assert headers["x-long"] == "one two three"
    assert headers["content-length"] == "5"


WRONG = {
    "no HTTP": (b"hello\r\n\r\n", Garbled),
    "another protocol": (b"\x15\x03\x01\x00\x02\x02\x50", Garbled),
    "HTTP/2": (b"HTTP/2 200 OK\r\nContent-Length: 5\r\n\r\nhello", Garbled),
    "no number": (b"HTTP/1.1 OK\r\n\r\n", Garbled),
    "differing lengths": (with_body(b"Content-Length: 6"), Garbled),
    "differing lengths in one": (with_body(b"Content-Length: 5, 6", length=False), Garbled),
    "cut off": (b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\nhello", Garbled),
    "cut off in a chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nhello", Garbled),
    "cut off between chunks": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", Garbled),
    "no chunk length": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\nhello", Garbled),
    "a longer chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxyz\r\n0\r\n\r\n", Garbled),
    "no gzip": (with_body(b"Content-Encoding: gzip"), Garbled),
    "an unknown coding": (with_body(b"Content-Encoding: lzma2"), Garbled),
    "a header without end": (b"HTTP/1.1 200 OK\r\nA: " + b"b" * 200_000, Garbled),
    "headers without end": (b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 20_000, Garbled),
    "an announced flood": (b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (MAX_BYTES + 1), Garbled),
    "a gzip bomb": (with_body(b"Content-Encoding: gzip", body=gzip.compress(bytes(2 * MAX_BYTES))), Garbled),
    "a bomb of empty gzips": (with_body(b"Content-Encoding: gzip", body=gzip.compress(b"") * 10_000), None),
    "nothing": (b"", Unreachable),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("then", ["close", "reset"])
def test_what_cannot_be_read_is_an_error_that_fits(name, then):
    said, kind = WRONG[name]
    with raw_server(saying(said, then=then)) as server:
        if kind is None:
            with pytest.raises(ApiError) if then == "reset" else pytest.MonkeyPatch.context():
                assert post(server).body == b""
            return
        # After a reset it depends on the machine how much of what was said before can still be read.
        with pytest.raises(kind if then == "close" else (kind, Garbled, Unreachable)) as caught:
            post(server)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("coding", ["length", "chunked", "to the end"])
def test_a_flood_is_not_read_to_its_end(coding):
    sent = [0]

    def flood(wire, data):
        lines = {"chunked": b"Transfer-Encoding: chunked\r\n", "length": b"Content-Length: %d\r\n" % (1 << 40)}
        wire.sendall(b"HTTP/1.1 200 OK\r\n" + lines.get(coding, b"") + b"\r\n")
        megabyte = bytes(1 << 20)
        while True:
            wire.sendall(b"100000\r\n" + megabyte + b"\r\n" if coding == "chunked" else megabyte)
            sent[0] += 1

    with raw_server(flood) as server, pytest.raises(Garbled, match="larger than 16 MB"):
        post(server)
    assert sent[0] < 64


def dripping(first, rest, pause=0.05):
    def drip(wire, data):
        take_all(wire, data)
        wire.sendall(first)
        while True:
            wire.sendall(rest)
            time.sleep(pause)

    return drip


DRIPS = {
    "before the status": (b"", b"H"),
    "in the status": (b"HTTP/1.1 200 O", b"K"),
    "in a header": (b"HTTP/1.1 200 OK\r\nX-Slow: ", b"a"),
    "in headers": (b"HTTP/1.1 200 OK\r\n", b"A: b\r\n"),
    "100 again and again": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "103 again and again": (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
    "in the body": (b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", b" "),
    "in chunks": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    "in the length of a chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1", b"0"),
    "in trailers": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"A: b\r\n"),
    "to the end": (b"HTTP/1.0 200 OK\r\n\r\n", b" "),
    "in gzip": (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n", gzip.compress(b"")),
}


@pytest.mark.parametrize("where", DRIPS)
def test_a_drip_ends_with_the_deadline(where):
    """Each byte comes well within any limit of a single wait. That this test ends is what it tests."""
    first, rest = DRIPS[where]
    with raw_server(dripping(first, rest)) as server, pytest.raises((Unreachable, Garbled)) as caught:
        post(server, seconds=SHORT)
    # A hundred headers may be over before the second is.
    assert "did not answer in time" in str(caught.value) or (where == "in headers" and "headers" in str(caught.value))


@pytest.mark.parametrize("where", ["in a header", "in the body"])
def test_a_byte_a_second(where):
    first, rest = DRIPS[where]
    with raw_server(dripping(first, rest, pause=1.0)) as server:
        begun = time.monotonic()
        with pytest.raises(Unreachable, match="did not answer in time"):
            post(server, seconds=2.5)
        assert time.monotonic() - begun < SECONDS


def test_a_server_that_takes_nothing_is_not_waited_for():
    def asleep(wire, data):
        done.wait(SECONDS)

    done = threading.Event()
    with raw_server(asleep) as server:
        try:
            with pytest.raises(Unreachable, match="did not answer in time"):
                post(server, seconds=SHORT, body=bytes(64 << 20))
        finally:
            done.set()


@pytest.mark.parametrize("status", [401, 413])
@pytest.mark.parametrize("then", ["goes on", "closes", "sleeps"])
def test_an_answer_before_the_body_was_taken_is_heard(status, then):
    def early(wire, data):
        wire.sendall(b"HTTP/1.1 %d No\r\nContent-Length: 5\r\n\r\nhello" % status)
        if then == "goes on":
            take_all(wire, data)
        elif then == "closes":
            wire.close()
        else:
            done.wait(SECONDS)

    done = threading.Event()
    with raw_server(early) as server:
        try:
            reply = post(server, body=bytes(16 << 20))
        except Unreachable:
            assert then == "closes", "only where the connection is reset may the answer be lost"
        else:
            assert (reply.status, reply.body) == (status, HELLO)
        finally:
            done.set()


def test_an_interim_answer_does_not_stop_a_body():
    taken = []

    def interim(wire, data):
        wire.sendall(b"HTTP/1.1 102 Processing\r\n\r\n")
        time.sleep(0.1)  # so that it comes while the body is under way
        taken.append(len(take_all(wire, data)))
        wire.sendall(with_body())

    with raw_server(interim) as server:
        assert post(server, body=bytes(16 << 20)).body == HELLO
    assert taken == [16 << 20]


@pytest.mark.parametrize(
    "after", [b"", b"H", b"HTTP/1.1 200 OK\r\nContent-Length: ", b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhe"]
)
def test_a_reset_is_no_more_than_an_error(after):
    with raw_server(saying(after, then="reset")) as server, pytest.raises((Unreachable, Garbled)):
        post(server)


def test_connections_are_kept_and_left_when_the_server_closes_or_says_too_much():
    message = with_body()
    for said, then, expected in [
        (message, "keep", 1),
        (message, "close", 3),
        (message + b"HTTP/1.1 200 OK\r\n", "keep", 3),
        (with_body(b"Connection: close"), "keep", 3),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", "keep", 3),
    ]:
        with raw_server(saying(said, then=then)) as server:
            host = Host(server.url)
            for _ in range(3):
                assert host.send(HttpRequest("POST", server.url, {}, b"?"), seconds=SECONDS).body == HELLO
                time.sleep(0.05)  # so that the end of the connection has come
            host.close()
            assert server.connections == expected, said


def test_what_a_server_learns_of_us():
    with raw_server(saying(with_body())) as server:
        post(server, headers={"content-type": "a/b", "ACCEPT": "x/y", "X-Own": "ü"}, body=b"12345")
    ((top, _, body),) = [request.partition(b"\r\n\r\n") for request in server.requests]
    first, *lines = top.split(b"\r\n")
    names = [line.partition(b":")[0].lower() for line in lines]
    assert first == b"POST /x HTTP/1.1"
    assert len(names) == len(set(names)), "no header goes twice"
    assert {b"content-type: a/b", b"ACCEPT: x/y", b"Content-Length: 5", b"User-Agent: dfml"} <= set(lines)
    assert b"X-Own: \xfc" in lines
    assert b"Accept-Encoding: identity" in lines
    assert b"Host: 127.0.0.1:%d" % server.port in lines
    assert body in (b"", b"12345")


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(sorted(RIGHT)), st.integers(0, 200), st.lists(st.binary(max_size=40), max_size=6))
def test_rubbish_raises_nothing_but_our_own(name, keep, parts):
    with raw_server(saying(RIGHT[name][:keep], *parts)) as server:
        try:
            said = str(post(server, seconds=5).status)
        except ApiError as error:
            said = str(error)
    assert said.isprintable()
