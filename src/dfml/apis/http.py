"""One HTTP exchange with a server that nobody trusts: it ends in time, is not too large, and stays with that server."""

import threading
import weakref
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpcore

from dfml.apis.reading import shown
from dfml.apis.sockets import connections, deadline
from dfml.errors import ConfigError, Garbled, Refused, Unreachable

MAX_BYTES = 16 << 20
"""of an answer, before and after decompression"""
MAX_REDIRECTS = 3


@dataclass(frozen=True)
class Message:
    """A request. Its headers may hold secrets, so it does not show them."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class Reply:
    """What came back, whole; the names of its headers in small letters."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Host:
    """The connections to one server, shared by all threads and by all APIs that it serves. TLS is verified.

    `knows` holds what was found out about the server, for whoever talks to it.
    """

    def __init__(self, origin: str) -> None:
        self.origin, self.knows = origin, dict[str, Any]()
        self.lock = threading.Lock()
        self._pool: httpcore.ConnectionPool | None = None

    def send(self, message: Message, *, seconds: float) -> Reply:
        """One exchange; it ends within `seconds`, however slowly bytes drip in. No redirect leads to another host."""
        deadline.set(seconds)
        for _ in range(MAX_REDIRECTS + 1):
            reply = self._exchange(message)
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
            message = Message(message.method, target, message.headers, message.body)
        raise Refused(f"{self.origin} redirects in circles; correct the address")

    def close(self) -> None:
        """Close idle connections; the next exchange opens new ones."""
        with self.lock:
            if self._pool is not None:
                self._pool.close()
                self._pool = None

    def __getstate__(self) -> dict[str, Any]:
        return {"origin": self.origin}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["origin"])  # type: ignore[misc]  # connections stay in their process

    def _exchange(self, message: Message) -> Reply:
        headers = {"Host": urlsplit(self.origin).netloc, "User-Agent": "dfml", "Accept": "application/json"}
        headers |= {"Accept-Encoding": "identity", **message.headers}
        if message.method != "GET":
            headers["Content-Length"] = str(len(message.body))
        lines = [(name.encode("ascii"), value.encode("latin-1")) for name, value in headers.items()]
        try:
            with self._connections().stream(
                message.method,
                message.url,
                headers=lines,
                content=message.body or None,
                extensions={"timeout": {"pool": deadline.left(httpcore.PoolTimeout)}},
            ) as response:
                return Reply(response.status, told := _names(response.headers), _body(response, told))
        except httpcore.TimeoutException:
            raise Unreachable(f"{self.origin} did not answer in time") from None
        except (httpcore.LocalProtocolError, httpcore.UnsupportedProtocol):
            # The text of this error may hold a header's value, so it is not repeated.
            raise ConfigError(f"{self.origin}: a header or the address has characters that HTTP forbids") from None
        except (httpcore.ConnectError, httpcore.ProxyError) as error:
            raise Unreachable(f"{self.origin} cannot be reached ({shown(str(error), 100)})") from None
        except (httpcore.NetworkError, httpcore.RemoteProtocolError) as error:
            raise Unreachable(f"{self.origin} broke the connection off ({shown(str(error), 100)})") from None

    def _connections(self) -> httpcore.ConnectionPool:
        with self.lock:
            if self._pool is None:
                self._pool = connections(self.origin)
                weakref.finalize(self, self._pool.close)  # also when nobody calls `close`
            return self._pool


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


def _names(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in headers}


def _body(response: httpcore.Response, headers: Mapping[str, str]) -> bytes:
    """All bytes of an answer, or `Garbled` as soon as there are too many of them."""
    parts, size = list[bytes](), 0
    for part in response.iter_stream():
        size += len(part)
        if size > MAX_BYTES:
            raise Garbled(f"its answer is larger than {MAX_BYTES >> 20} MB")
        parts.append(part)
    body = b"".join(parts)
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
