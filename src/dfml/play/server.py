"""The page at an address of this machine."""

import os
import secrets
import socket
import sys
import webbrowser
from types import TracebackType
from typing import Self

import uvicorn

from dfml.errors import ConfigError
from dfml.play.app import make_app
from dfml.play.guard import Guard
from dfml.play.studio import Studio

HOST = "127.0.0.1"
"""and no other: what lies on the page is the user's own"""


class PlayServer:
    """A studio's page, behind a token that is made anew for each server. Use it as a context manager."""

    def __init__(self, studio: Studio, *, port: int = 0) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((HOST, port))
        except (OSError, OverflowError) as error:
            self._socket.close()
            reason = getattr(error, "strerror", None) or "ports go up to 65535"
            raise ConfigError(f"cannot listen at port {port}: {reason}; choose another --port, or 0 for any") from None
        self._socket.listen()  # a browser that is faster than the server waits
        port, token = self._socket.getsockname()[1], secrets.token_urlsafe(18)
        self.address = f"http://{HOST}:{port}/{token}/"
        config = uvicorn.Config(
            Guard(make_app(studio), token=token, port=port),
            log_level="error",
            access_log=False,  # it would show the token
            server_header=False,
            lifespan="on",
            ws="none",
            timeout_graceful_shutdown=2,
        )
        self._server = uvicorn.Server(config)

    def run(self) -> None:
        """Serve until Ctrl-C or `stop`."""
        self._server.run(sockets=[self._socket])

    def stop(self) -> None:
        """End soon; any thread may say so."""
        self._server.should_exit = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()


def open_browser(address: str) -> bool:
    """Open a browser with a window, where there is one; never one that would take over the terminal."""
    if sys.platform.startswith("linux") and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return False
    try:
        return webbrowser.open(address)
    except webbrowser.Error:
        return False
