"""Reading one HTTP/1.1 response off a connection, from a server that is not trusted."""

import re
from collections.abc import Callable
from typing import NamedTuple

from dfml.errors import Garbled

MAX_BYTES = 16 << 20
"""of a body"""
MAX_HEAD = 1 << 16
_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9][0-9])(?: [^\r\n]*)?")
_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n\0]*?)[ \t]*")
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?")


class NoHttp(ConnectionError):
    """What came is no HTTP, or ended too early: nothing more can be had from this connection."""


class Response(NamedTuple):
    """One response; the names of its headers in small letters."""

    status: int
    headers: dict[str, str]
    body: bytes
    reusable: bool
    """whether another request may follow on the same connection"""


class _Source:
    """Bytes as they come, and those that came too early."""

    def __init__(self, receive: Callable[[], bytes]) -> None:
        self._receive, self.ahead = receive, b""

    def more(self) -> bytes:
        part = self._receive()
        if not part:
            raise NoHttp("it ended in the middle of an answer" if self.ahead else "it ended without an answer")
        return part

    def until(self, mark: bytes, most: int) -> bytes:
        """What comes before `mark`, which is taken away, too."""
        while (end := self.ahead.find(mark)) < 0:
            if len(self.ahead) > most:
                raise NoHttp("its headers are too long")
            self.ahead += self.more()
        found, self.ahead = self.ahead[:end], self.ahead[end + len(mark) :]
        return found

    def exactly(self, count: int) -> bytes:
        parts, size = [self.ahead], len(self.ahead)
        while size < count:
            parts.append(self.more())
            size += len(parts[-1])
        data = b"".join(parts) if len(parts) > 1 else parts[0]
        self.ahead = data[count:]
        return data[:count] if self.ahead else data

    def rest(self) -> bytes:
        """Everything up to the end of the connection."""
        parts, size = [self.ahead], len(self.ahead)
        while part := self._receive():
            parts.append(part)
            size += len(part)
            _not_too_large(size)
        return b"".join(parts)


def read_response(receive: Callable[[], bytes]) -> Response:
    """The next response; `receive` gives some bytes, or none at the end of the connection."""
    source = _Source(receive)
    minor, status, headers = b"1", 100, dict[str, str]()
    while status < 200:  # 1xx: the real one follows
        minor, status, headers = _head(source.until(b"\r\n\r\n", MAX_HEAD))
    lasts = minor == b"1" and "close" not in headers.get("connection", "").lower()
    coding, length = headers.get("transfer-encoding"), headers.get("content-length")
    if status in (204, 304):
        body = b""
    elif coding is not None:
        if coding.lower() != "chunked" or length is not None:
            raise NoHttp("its answer has no clear end")
        body = _chunks(source)
    elif length is not None:
        if not (length.isascii() and length.isdigit() and len(length) < 20):
            raise NoHttp("its answer has no clear length")
        _not_too_large(int(length))
        body = source.exactly(int(length))
    else:
        body, lasts = source.rest(), False
        _not_too_large(len(body))
    return Response(status, headers, body, lasts and not source.ahead)


def _head(text: bytes) -> tuple[bytes, int, dict[str, str]]:
    first, *lines = text.split(b"\r\n")
    found = _STATUS.fullmatch(first)
    if not found:
        raise NoHttp("its answer is no HTTP")
    headers: dict[str, str] = {}
    for line in lines:
        pair = _LINE.fullmatch(line)
        if not pair:
            raise NoHttp("its headers are no headers")
        name, value = pair[1].decode("ascii").lower(), pair[2].decode("latin-1")
        if name in headers and name in ("content-length", "transfer-encoding") and headers[name] != value:
            raise NoHttp("its answer has no clear length")
        headers[name] = value
    return found[1], int(found[2]), headers


def _chunks(source: _Source) -> bytes:
    parts, total = list[bytes](), 0
    while True:
        size = _SIZE.fullmatch(source.until(b"\r\n", MAX_HEAD))
        if not size:
            raise NoHttp("its answer has no clear end")
        count = int(size[1], 16)
        total += count
        _not_too_large(total)
        if count == 0:
            while source.until(b"\r\n", MAX_HEAD):  # trailers, of no interest
                continue
            return b"".join(parts)
        parts.append(source.exactly(count))
        if source.exactly(2) != b"\r\n":
            raise NoHttp("its answer has no clear end")


def _not_too_large(size: int) -> None:
    if size > MAX_BYTES:
        raise Garbled(f"its answer is larger than {MAX_BYTES >> 20} MB")
