"""One HTTP exchange with an untrusted server: it ends in time, is not too large, and stays with that server."""

import re
import ssl
import threading
import time
import weakref
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urljoin, urlsplit

from dfml.apis.remote.connection import Connection
from dfml.apis.remote.reading import shown
from dfml.apis.remote.responses import MAX_BYTES, Response, read_response
from dfml.errors import ConfigError, Garbled, Refused, Unreachable

MAX_REDIRECTS = 3
KEEP_ALIVE = 4.0
"""seconds an idle connection is kept: less than the 5 after which common servers close theirs"""
AT_ONCE = 1 << 19
"""bytes of a body that is cheaper to copy than to send by itself"""
CONNECTIONS = 64
"""to one server at once"""
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+: [\t\x20-\x7e\x80-\xff]*")
_TARGET = re.compile(r"[\x21-\x7e]+")


@dataclass(frozen=True)
class HttpRequest:
    """A request. Its headers may hold secrets, so it does not show them."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class HttpResponse:
    """What came back, whole; the names of its headers in small letters."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Host:
    """The connections to one server, shared by all threads and by all APIs that it serves. TLS is verified.

    `knows` holds what was found out about the server, for all APIs that it serves.
    """

    def __init__(self, origin: str) -> None:
        self.origin, self.knows = origin, dict[str, Any]()
        self._idle: list[Connection] = []
        self._lock, self._room = threading.Lock(), threading.BoundedSemaphore(CONNECTIONS)
        weakref.finalize(self, _close, self._idle)  # also where `close` is not called

    def send(self, message: HttpRequest, *, seconds: float) -> HttpResponse:
        """One exchange; it ends within `seconds`, however slowly bytes drip in. No redirect leads to another host."""
        ends = time.monotonic() + seconds
        for _ in range(MAX_REDIRECTS + 1):
            reply = self._exchange(message, ends)
            if reply.status not in (301, 302, 303, 307, 308) or "location" not in reply.headers:
                return reply
            target = urljoin(message.url, reply.headers["location"])
            if origin_of(target) != self.origin:
                raise Refused(
                    f"{self.origin} redirects to another host, {shown(origin_of(target), 80)}, which is not followed; "
                    "if that is right, put it into the manifest"
                )
            if message.method != "GET" and reply.status not in (307, 308):
                raise Refused(f"{self.origin} redirects to {shown(target, 120)}; put that address into the manifest")
            message = HttpRequest(message.method, target, message.headers, message.body)
        raise Refused(f"{self.origin} redirects in circles; correct the address")

    def check_connection(self, *, seconds: float) -> None:
        """Return if the server lets us connect; else `Unreachable`. Nothing is sent."""
        try:
            self._connection(time.monotonic() + seconds).close()
        except TimeoutError:
            raise Unreachable(f"{self.origin} did not answer in time") from None

    def close(self) -> None:
        """Close idle connections; the next exchange opens new ones."""
        with self._lock:
            _close(self._idle)

    def __getstate__(self) -> dict[str, Any]:
        return {"origin": self.origin}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["origin"])  # type: ignore[misc]  # connections stay in their process

    def _exchange(self, message: HttpRequest, ends: float) -> HttpResponse:
        head = self._head(message)
        if not self._room.acquire(timeout=max(0.0, ends - time.monotonic())):
            raise Unreachable(f"{self.origin} did not answer in time")
        try:
            response = self._answer(head, message, ends)
        except TimeoutError:
            raise Unreachable(f"{self.origin} did not answer in time") from None
        except OSError as error:
            raise Unreachable(f"{self.origin} broke the connection off ({_why(error)})") from None
        finally:
            self._room.release()
        return HttpResponse(response.status, response.headers, _plain(response.body, response.headers))

    def _answer(self, head: str, message: HttpRequest, ends: float) -> Response:
        """Send, receive, and keep the connection if it is still good."""
        connection = self._connection(ends)
        try:
            target = message.url if connection.through_proxy else _path(message.url)
            start = f"{message.method} {target} HTTP/1.1\r\n".encode("ascii")
            greeting = connection.greeting if connection.through_proxy else b""
            top = start + greeting + head.encode("latin-1")
            connection.send(*((top, message.body) if len(message.body) > AT_ONCE else (top + message.body,)))
            response = read_response(connection.receive)
        except BaseException:
            connection.close()
            raise
        if response.reusable:
            connection.used = time.monotonic()
            with self._lock:
                self._idle.append(connection)
        else:
            connection.close()
        return response

    def _connection(self, ends: float) -> Connection:
        """The connection that was used last, if it is still open, or a new one."""
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                break
            if time.monotonic() - connection.used < KEEP_ALIVE and not connection.stale:
                connection.ends = ends
                return connection
            connection.close()
        try:
            return Connection(self.origin, ends)
        except TimeoutError:
            raise
        except OSError as error:
            raise Unreachable(f"{self.origin} cannot be reached ({_why(error)})") from None

    def _head(self, message: HttpRequest) -> str:
        """All headers, and the empty line."""
        headers = {"Host": urlsplit(self.origin).netloc, "User-Agent": "dfml", "Accept": "application/json"}
        headers |= {"Accept-Encoding": "identity", **message.headers}
        if message.method != "GET":
            headers["Content-Length"] = str(len(message.body))
        lines = [f"{name}: {value}" for name, value in headers.items()]
        if not _TARGET.fullmatch(message.url) or not all(_HEADER.fullmatch(line) for line in lines):
            # What is wrong may be a secret, so it is not repeated.
            raise ConfigError(f"{self.origin}: a header or the address has characters that HTTP forbids")
        return "\r\n".join([*lines, "", ""])


def origin_of(url: str) -> str:
    """Scheme, host and port of an address: what a server is known by."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        raise ConfigError(f"{shown(url, 100)} is no address; expected one such as https://host:8000") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"{shown(url, 100)} is no address; expected one such as https://host:8000")
    if parts.username is not None or parts.password is not None:
        raise ConfigError(f"the address of {parts.hostname} holds a user or password; put them into headers")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}:{port}"


def _path(url: str) -> str:
    parts = urlsplit(url)
    return (parts.path or "/") + f"?{parts.query}" * bool(parts.query)


def _close(connections: list[Connection]) -> None:
    while connections:
        connections.pop().close()


def _why(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate verify failed: {shown(error.verify_message, 100)}"
    return shown(error.strerror or str(error), 100)


def _plain(body: bytes, headers: Mapping[str, str]) -> bytes:
    """The body without compression, or `Garbled` as soon as that is too large."""
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding in ("", "identity"):
        return body
    if encoding not in ("gzip", "deflate"):
        raise Garbled(f"its answer is compressed as {shown(encoding, 40)}, though that was not asked for")
    unpack = zlib.decompressobj(zlib.MAX_WBITS | 32)  # either format, by its header
    try:
        plain = unpack.decompress(body, MAX_BYTES + 1)
    except zlib.error:
        raise Garbled("its answer cannot be decompressed") from None
    if len(plain) > MAX_BYTES or not unpack.eof:
        raise Garbled(f"its answer is cut off or larger than {MAX_BYTES >> 20} MB when decompressed")
    return plain
