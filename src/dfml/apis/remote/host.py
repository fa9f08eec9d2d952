"""One HTTP exchange with an untrusted server: it ends in time, is not too large, and stays with that server.

urllib3 speaks HTTP, TLS and to proxies; the policy is ours.
"""

import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urljoin, urlsplit

from urllib3 import BaseHTTPResponse, HTTPResponse, Retry
from urllib3.exceptions import ClosedPoolError, EmptyPoolError, HTTPError

from dfml.apis.remote.deadline import Reached, exchange
from dfml.apis.remote.failures import OutOfTime, failure, refused_by_proxy
from dfml.apis.remote.reading import shown
from dfml.apis.remote.routes import Route, find_route
from dfml.errors import ConfigError, Garbled, Refused

MAX_REDIRECTS = 3
MAX_BYTES = 16 << 20
"""of a body, as it comes and when decompressed"""
_PIECE = 1 << 16
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+: [\t\x20-\x7e\x80-\xff]*")
_TARGET = re.compile(r"[\x21-\x7e]+")
_OURS = ("content-length", "transfer-encoding")
"""headers about the body that a manifest may not set"""
_ONCE = Retry(False)


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
        self._ours = {
            "Host": urlsplit(origin).netloc,
            "User-Agent": "dfml",
            "Accept": "application/json",
            "Accept-Encoding": "identity",
        }
        self._lock, self._route = threading.Lock(), None

    _route: Route | None

    def send(self, message: HttpRequest, *, seconds: float) -> HttpResponse:
        """One exchange; it ends within `seconds`, however slowly bytes drip in. No redirect leads to another host."""
        ends = time.monotonic() + seconds
        for _ in range(MAX_REDIRECTS + 1):
            reply = self._exchange(message, ends, seconds)
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
        """Return if the server lets us connect; else `Unreachable`, or `Refused` for good. Nothing is sent."""
        exchange.knocks = True
        try:
            self._exchange(HttpRequest("GET", self.origin + "/"), time.monotonic() + seconds, seconds)
        except Reached:
            pass
        finally:
            exchange.knocks = False

    def close(self) -> None:
        """Close idle connections; the next exchange opens new ones."""
        with self._lock:
            route, self._route = self._route, None
        if route is not None:
            route.pool.close()

    def __getstate__(self) -> dict[str, Any]:
        return {"origin": self.origin}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["origin"])  # type: ignore[misc]  # connections stay in their process

    def _exchange(self, message: HttpRequest, ends: float, seconds: float) -> HttpResponse:
        headers = self._headers(message)
        response: BaseHTTPResponse | None = None
        route = self._way()
        exchange.ends = ends
        try:
            response = self._answer(route, message, headers)
            if response.status == 407 and route.proxy is not None:
                raise refused_by_proxy(407, route.proxy, self.origin)
            return HttpResponse(response.status, _small(response), _body(response))
        except ClosedPoolError:  # by another thread, before anything was sent
            return self._exchange(message, ends, seconds)
        except (HTTPError, OSError) as error:
            if time.monotonic() >= ends or isinstance(error, EmptyPoolError):
                raise OutOfTime(f"{self.origin} did not answer in time, that is within {seconds:g} s") from None
            told = failure(error, origin=self.origin, proxy=route.proxy, begun=response is not None)
            raise told from None
        finally:
            exchange.ends = 0.0
            if response is not None:
                if not response.closed:  # not read to its end
                    response.close()
                response.release_conn()

    def _answer(self, route: Route, message: HttpRequest, headers: dict[str, str]) -> BaseHTTPResponse:
        """Send; what comes back is still to be read."""
        left = exchange.left()
        return route.pool.urlopen(
            message.method,
            message.url if route.forwards else _path(message.url),
            body=None if message.method == "GET" else message.body,
            headers=headers,
            retries=_ONCE,
            redirect=False,
            assert_same_host=False,
            timeout=left,
            pool_timeout=left,  # type: ignore[arg-type]
            preload_content=False,
        )

    def _way(self) -> Route:
        with self._lock:
            if self._route is None:
                self._route = find_route(self.origin)
            return self._route

    def _headers(self, message: HttpRequest) -> dict[str, str]:
        """All headers, the message's own before ours."""
        headers = merged(self._ours, message.headers)
        headers = {name: value for name, value in headers.items() if name.lower() not in _OURS}
        lines = [f"{name}: {value}" for name, value in headers.items()]
        if not _TARGET.fullmatch(message.url) or not all(_HEADER.fullmatch(line) for line in lines):
            # What is wrong may be a secret, so it is not repeated.
            raise ConfigError(f"{self.origin}: a header or the address has characters that HTTP forbids")
        return headers


def merged(*groups: Mapping[str, str]) -> dict[str, str]:
    """Headers of which the later win over the earlier, however their names are written."""
    headers: dict[str, tuple[str, str]] = {}
    for group in groups:
        for name, value in group.items():
            headers[name.lower()] = name, value
    return dict(headers.values())


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


def _small(response: BaseHTTPResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in response.headers.items()}


def _body(response: BaseHTTPResponse) -> bytes:
    """The body without compression, or `Garbled` as soon as it is too large."""
    codings = [word.strip() for word in response.headers.get("content-encoding", "").lower().split(",")]
    for coding in codings:
        if coding not in ("", "identity", *HTTPResponse.CONTENT_DECODERS):
            raise Garbled(f"its answer is compressed as {shown(coding, 40)}, though that was not asked for")
    parts, size = list[bytes](), getattr(response, "length_remaining", None) or 0
    if 0 < size <= MAX_BYTES and codings == [""]:
        return response.read()  # its end is known: no second look is needed to find it
    if size <= MAX_BYTES:
        size = 0
        while part := response.read1(_PIECE):
            parts.append(part)
            size += len(part)
            if size > MAX_BYTES:
                break
    if size > MAX_BYTES:
        when = " when decompressed" if codings != [""] else ""
        raise Garbled(f"its answer is larger than {MAX_BYTES >> 20} MB{when}")
    return b"".join(parts)
