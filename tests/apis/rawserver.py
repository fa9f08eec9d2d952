"""A server of raw bytes, for what no library would send; not a test itself."""

import contextlib
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Play = Callable[[socket.socket, bytes], None]
"""what is done with a connection once the head of a request, and what came with it, has been read"""


class Raw:
    """Where it listens, and every request that came, as bytes."""

    def __init__(self, port: int) -> None:
        self.port, self.url = port, f"http://127.0.0.1:{port}"
        self.requests: list[bytes] = []
        self.connections = 0


@contextmanager
def raw_server(play: Play, *, wrap: Callable[[socket.socket], socket.socket] | None = None) -> Iterator[Raw]:
    """`play` for every request, one after the other on a connection until it closes that; `wrap` adds TLS."""
    listener = socket.create_server(("127.0.0.1", 0))
    server, threads, wires = Raw(listener.getsockname()[1]), list[threading.Thread](), list[socket.socket]()

    def serve(wire: socket.socket) -> None:
        with contextlib.suppress(OSError), wire, wrap(wire) if wrap else wire as wire:
            wires.append(wire)
            while data := head(wire):
                server.requests.append(data)
                play(wire, data)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                wire, _ = listener.accept()
                wires.append(wire)
                server.connections += 1
                threads.append(threading.Thread(target=serve, args=(wire,)))
                threads[-1].start()

    accepting = threading.Thread(target=accept)
    accepting.start()
    try:
        yield server
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        accepting.join()
        for wire in wires:
            with contextlib.suppress(OSError):
                wire.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()


def head(wire: socket.socket) -> bytes:
    """The bytes up to the empty line, and whatever of the body came with them; none at the end."""
    data = b""
    while b"\r\n\r\n" not in data:
        part = wire.recv(1 << 16)
        if not part:
            return b""
        data += part
    return data


def take_all(wire: socket.socket, data: bytes) -> bytes:
    """The whole body, of which `data` has the beginning."""
    top, _, body = data.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: *(\d+)", top, re.IGNORECASE)
    while length and len(body) < int(length[1]):
        part = wire.recv(1 << 16)
        if not part:
            break
        body += part
    return body


def reset(wire: socket.socket) -> None:
    """End a connection with RST."""
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wire.close()
