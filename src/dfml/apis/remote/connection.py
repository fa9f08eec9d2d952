"""One connection to a server: TCP, TLS where the address says so, through a proxy where the environment says so.

Every wait ends when the exchange has to be over, however slowly bytes drip in.
"""

import select
import socket
import ssl
import time
from base64 import b64encode
from functools import cache
from importlib.util import find_spec
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

CONNECT = 10.0
"""seconds in which a server has to accept a connection"""
_PIECE = 1 << 16
_MOMENT = 0.02


class Connection:
    """A connection to `origin`, open from the beginning. `ends` is when the exchange on it has to be over.

    Waiting for too long is a `TimeoutError`, anything else that happens to a connection another `OSError`.
    """

    def __init__(self, origin: str, ends: float) -> None:
        self.ends, self.used, self._timeout = ends, 0.0, (0.0, 0.0)
        """`used` is when the last exchange on it was over"""
        parts = urlsplit(origin)
        host, port = parts.hostname or "", parts.port or 0
        proxy = _proxy(parts.scheme, host)
        self.through_proxy = proxy is not None and parts.scheme == "http"
        """whether requests name the whole address, because a proxy has to know it"""
        self.greeting = b"" if proxy is None else _credentials(proxy)
        where = (host, port) if proxy is None else (urlsplit(proxy).hostname or "", urlsplit(proxy).port or 80)
        self._socket = socket.create_connection(where, timeout=min(self._left(), CONNECT))
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if proxy is not None and parts.scheme == "https":
                self._tunnel(host, port)
            if parts.scheme == "https":
                self._socket.settimeout(min(self._left(), CONNECT))
                self._socket = _tls().wrap_socket(self._socket, server_hostname=host)
        except BaseException:
            self._socket.close()
            raise

    def send(self, *parts: bytes) -> None:
        """All of the parts, one after the other."""
        for part in parts:
            self._limit_the_wait()
            self._socket.sendall(part)

    def receive(self) -> bytes:
        """Some bytes that have come; none at the end of the connection."""
        self._limit_the_wait()
        return self._socket.recv(_PIECE)

    @property
    def stale(self) -> bool:
        """Whether an idle connection is of no more use: something came that was not asked for, most likely its end."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(0))

    def close(self) -> None:
        self._socket.close()

    def _limit_the_wait(self) -> None:
        """Let the next wait end when the exchange does; a setting of a moment ago is near enough."""
        ends, set_at = self._timeout
        now = time.monotonic()
        if ends != self.ends or now - set_at > _MOMENT:
            self._socket.settimeout(self._left())
            self._timeout = self.ends, now

    def _left(self) -> float:
        seconds = self.ends - time.monotonic()
        if seconds <= 0:
            raise TimeoutError("the exchange has taken too long")
        return seconds

    def _tunnel(self, host: str, port: int) -> None:
        """Ask the proxy to pass on everything that follows."""
        name = f"[{host}]" if ":" in host else host
        self.send(f"CONNECT {name}:{port} HTTP/1.1\r\nHost: {name}:{port}\r\n".encode() + self.greeting + b"\r\n")
        said = b""
        while b"\r\n\r\n" not in said and len(said) < _PIECE:
            part = self._socket.recv(1)  # not one byte of what follows
            if not part:
                break
            said += part
        if said.split(b" ")[1:2] != [b"200"]:
            raise ConnectionError(f"the proxy answers {said[:60].decode('latin-1').splitlines()[:1]}")


@cache
def _tls() -> ssl.SSLContext:
    """The certificates of the system, of $SSL_CERT_FILE and, where it is installed, of the package certifi."""
    context = ssl.create_default_context()
    if find_spec("certifi") is not None:
        import certifi

        context.load_verify_locations(certifi.where())
    return context


def _proxy(scheme: str, host: str) -> str | None:
    """The proxy that the environment prescribes for this host, if any; never for this machine itself."""
    if host in ("localhost", "::1") or host.startswith("127.") or proxy_bypass(host):
        return None
    address = getproxies().get(scheme)
    return None if not address else address if "://" in address else f"http://{address}"


def _credentials(proxy: str) -> bytes:
    parts = urlsplit(proxy)
    if parts.username is None:
        return b""
    secret = b64encode(f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode())
    return b"Proxy-Authorization: Basic " + secret + b"\r\n"
