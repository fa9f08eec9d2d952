"""Connections of urllib3 on which an exchange is over in time.

urllib3 limits every wait by itself, so that a server that sends a byte now and then would be listened to for ever. Here
each wait gets what is left of the exchange's own time, and connecting, much of which has no limit at all, is left to a
thread that is not waited for longer.
"""

import contextlib
import http.client
import io
import logging
import select
import socket
import ssl
import threading
import time
from functools import cache
from typing import Any, BinaryIO

from urllib3.connection import HTTPConnection
from urllib3.exceptions import ConnectTimeoutError
from urllib3.response import HTTPResponse

CONNECT = 10.0
"""seconds in which a server has to accept a connection, proxies and TLS included"""
KEEP_ALIVE = 4.0
"""seconds an idle connection is kept: less than the 5 after which common servers close theirs"""
_BUFFER = 1 << 16
_MOMENT = 0.02


class Exchange(threading.local):
    """The exchange that this thread is at."""

    ends: float = 0.0
    """when it has to be over, by the monotonic clock; 0 while there is none"""
    knocks: bool = False
    """whether it is over when there is a connection, before anything is sent"""

    def left(self) -> float:
        """Seconds until it has to be over; `TimeoutError` if there are none."""
        seconds = self.ends - time.monotonic()
        if seconds <= 0:
            raise TimeoutError("the exchange has taken too long")
        return seconds


exchange = Exchange()

for _name in ("urllib3.connection", "urllib3.connectionpool", "urllib3.util.retry"):
    # They would write addresses, in which there may be secrets. Those of others in this process still come.
    logging.getLogger(_name).addFilter(lambda _: not exchange.ends)


class Reached(Exception):
    """There is a connection, and no more was wanted."""


class _Response(http.client.HTTPResponse):
    """The standard library skips 100 Continue alone; so do we what else comes before the answer, such as 103."""

    def _read_status(self) -> tuple[str, int, str]:
        version, status, reason = super()._read_status()  # type: ignore[misc]
        return version, http.client.CONTINUE if 101 < status < 200 else status, reason


class TimedConnection(HTTPConnection):
    """What is added to every kind of urllib3's connections; see `timed`."""

    response_class = _Response
    sock: Any
    _holds, _held = False, b""

    def connect(self) -> None:
        """Resolve, connect, tunnel and shake hands, or `ConnectTimeoutError`."""
        connect, seconds = super().connect, min(exchange.left(), CONNECT)
        over, failures, late = threading.Event(), list[BaseException](), threading.Event()
        self.timeout = seconds

        def work() -> None:
            try:
                connect()
            except BaseException as error:
                failures.append(error)
            over.set()
            if late.is_set():
                self.close()

        threading.Thread(target=work, name="dfml connecting", daemon=True).start()
        try:
            if not over.wait(seconds):
                raise ConnectTimeoutError(self, f"no connection within {seconds:g} s")
        except BaseException:
            late.set()
            wire = self.sock
            if wire is not None:
                _shut(wire)  # which wakes the thread
            raise
        if failures:
            raise failures[0]
        self.sock = TimedSocket(self.sock)

    def request(self, *args: Any, **kwargs: Any) -> None:
        """Send, unless somebody only wants to know whether that is possible."""
        if exchange.knocks:
            if self.is_closed:
                self.connect()
            raise Reached
        self._holds, self._held = bool(kwargs.get("body")), b""
        super().request(*args, **kwargs)

    def send(self, data: Any) -> None:
        """Send; the head of a request waits for its body, since one packet is cheaper than two."""
        if self._holds:
            self._holds, self._held = False, data
            return
        if self._held:
            data, self._held = (self._held, data), b""
        super().send(data)

    def getresponse(self) -> HTTPResponse:  # type: ignore[override]  # as in urllib3
        """The answer, its headers read."""
        wire = self.sock
        try:
            return super().getresponse()
        except BaseException:
            self.close()
            if wire is not None and wire.reader is not None:  # where lengths differ, no other object has it
                wire.reader.close()
            raise

    @property
    def is_connected(self) -> bool:
        """Whether an idle connection can be used again."""
        wire = self.sock
        if isinstance(wire, TimedSocket) and (wire.spoilt or time.monotonic() - wire.used > KEEP_ALIVE):
            return False
        return super().is_connected


@cache
def timed(kind: type[HTTPConnection]) -> type[HTTPConnection]:
    """The kind of connection, such as to HTTPS through SOCKS, with a deadline."""
    return type(f"Timed{kind.__name__}", (TimedConnection, kind), {})


class TimedSocket:
    """A connected socket, of TLS or not, on which every wait ends with the exchange that this thread is at."""

    def __init__(self, wire: Any) -> None:
        self._wire = wire
        self._plain = isinstance(wire, socket.socket) and not isinstance(wire, ssl.SSLSocket)
        self.used = time.monotonic()
        """when something was sent or received"""
        self.spoilt = False
        """whether no other request may follow, because not all was sent, or more came than was asked for"""

        self._limit = 0.0, 0.0
        self.reader: _Reader | None = None
        """the answer that is being read"""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wire, name)

    def settimeout(self, seconds: float | None) -> None:
        """Nothing: no limit of a single wait counts here."""

    def limit(self) -> None:
        """Let the next wait end when the exchange does; a setting of a moment ago is near enough.

        Each setting gives other threads a turn, and where several wait for answers, they take it.
        """
        self.used = now = time.monotonic()
        ends, at = self._limit
        if ends != exchange.ends or now - at > _MOMENT:
            self._wire.settimeout(exchange.left())
            self._limit = exchange.ends, now

    def sendall(self, data: Any) -> None:
        """All of `data`, bytes or a tuple of them; `BrokenPipeError` where the server answers before it has taken that,
        as if it had closed."""
        parts = data if isinstance(data, tuple) else (data,)
        if not self._plain and len(parts) > 1:
            parts = (b"".join(parts),)
        rest = [memoryview(part).cast("B") for part in parts]
        while rest:
            self.limit()
            rest = _after(rest, self._wire.sendmsg(rest) if self._plain else self._wire.send(rest[0]))
            if rest and self._plain and self._answers():
                self.spoilt = True
                raise BrokenPipeError("it answers before it has taken the request")

    def makefile(self, *_: Any, **__: Any) -> BinaryIO:
        """What is received."""
        self.reader = _Reader(_Received(self, self._wire.makefile("rb", buffering=0)), _BUFFER)
        return self.reader

    def _answers(self) -> bool:
        """Wait until more can be sent, or an answer comes. (With TLS, what comes need not be an answer.)"""
        poll = select.poll()
        poll.register(self._wire, select.POLLIN | select.POLLOUT)
        told = poll.poll(exchange.left() * 1000)
        if not told or told[0][1] & ~select.POLLOUT == 0:
            return False  # out of time, which `limit` will say, or there is room for more
        start = self._wire.recv(12, socket.MSG_PEEK)
        if start[:7] == b"HTTP/1." and (len(start) < 10 or start[9:10] == b"1"):
            time.sleep(0.001)  # 1xx: the answer is still to come, but this stays readable
            return False
        return True


class _Received(io.RawIOBase):
    """The bytes of a socket, each wait for them within the exchange's time."""

    def __init__(self, wire: TimedSocket, raw: Any) -> None:
        self.socket, self._raw, self.over = wire, raw, False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if self.over:
            return None
        self.socket.limit()
        count: int | None = self._raw.readinto(buffer)
        return count

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
        super().close()


class _Reader(io.BufferedReader):
    """One answer; what came after its end was not asked for."""

    raw: _Received

    def close(self) -> None:
        if not self.closed:
            self.raw.over = True
            self.raw.socket.spoilt |= bool(self.peek(1))
            self.raw.socket.reader = None
        super().close()


def _after(parts: list[memoryview], count: int) -> list[memoryview]:
    """What is left of `parts` without the first `count` bytes."""
    while parts and count >= len(parts[0]):
        count -= len(parts[0])
        parts = parts[1:]
    return [parts[0][count:], *parts[1:]] if parts else []


def _shut(wire: Any) -> None:
    with contextlib.suppress(OSError):
        wire.shutdown(socket.SHUT_RDWR)
