"""Connections whose every wait ends when the exchange of their thread has to be over.

httpcore's own timeouts begin anew with every byte, so that headers or bodies that drip in slowly would never end.
"""

import ssl
import threading
import time
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpcore

KEEP_ALIVE = 4.0
"""seconds an idle connection is kept: less than the 5 after which common servers close theirs"""
CONNECTIONS = 64
"""to one server at once"""
CONNECT = 10.0
"""seconds in which a server has to accept a connection"""


class Deadline(threading.local):
    """When the exchange of this thread has to be over."""

    _ends = 0.0

    def set(self, seconds: float) -> None:
        self._ends = time.monotonic() + seconds

    def left(self, error: type[Exception], most: float = float("inf")) -> float:
        """The seconds that are left, more than 0; else `error`."""
        seconds = self._ends - time.monotonic()
        if seconds <= 0:
            raise error("the exchange has taken too long")
        return min(seconds, most)


deadline = Deadline()


class TimedStream(httpcore.NetworkStream):
    """A connection that looks at the deadline before each of its waits."""

    def __init__(self, inner: httpcore.NetworkStream) -> None:
        self.inner = inner

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self.inner.read(max_bytes, deadline.left(httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for start in range(0, len(buffer), 1 << 16):  # in pieces, or a server that reads slowly could hold us up
            self.inner.write(buffer[start : start + (1 << 16)], deadline.left(httpcore.WriteTimeout))

    def close(self) -> None:
        self.inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        seconds = deadline.left(httpcore.ConnectTimeout, CONNECT)
        return TimedStream(self.inner.start_tls(ssl_context, server_hostname, seconds))

    def get_extra_info(self, info: str) -> Any:
        return self.inner.get_extra_info(info)


class TimedBackend(httpcore.SyncBackend):
    """The network as httpcore knows it, with deadlines."""

    def connect_tcp(self, *args: Any, **kwargs: Any) -> httpcore.NetworkStream:
        kwargs["timeout"] = deadline.left(httpcore.ConnectTimeout, CONNECT)
        return TimedStream(super().connect_tcp(*args, **kwargs))


def connections(origin: str) -> httpcore.ConnectionPool:
    """A pool of connections to one server; its certificate is verified where it is asked over TLS."""
    return httpcore.ConnectionPool(
        # The certificates of the system, of $SSL_CERT_FILE and of the package certifi; reading them takes a moment.
        ssl_context=httpcore.default_ssl_context() if origin.startswith("https:") else None,
        proxy=_proxy(origin),
        max_connections=CONNECTIONS,
        keepalive_expiry=KEEP_ALIVE,
        network_backend=TimedBackend(),
    )


def _proxy(origin: str) -> httpcore.Proxy | None:
    """The proxy that the environment prescribes for this host, if any; never for this machine itself."""
    parts = urlsplit(origin)
    host = parts.hostname or ""
    if host in ("localhost", "::1") or host.startswith("127.") or proxy_bypass(host):
        return None
    address = getproxies().get(parts.scheme)
    if not address:
        return None
    proxy = urlsplit(address if "://" in address else f"http://{address}")
    auth = (proxy.username, proxy.password or "") if proxy.username else None
    return httpcore.Proxy(f"{proxy.scheme}://{proxy.hostname}:{proxy.port or 80}", auth=auth)
