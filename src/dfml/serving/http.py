"""HTTP around the routes, on the standard library's server: one thread a connection, and a socket that can be misused.

Faults need that socket: a response that ends in the middle, a connection that is reset.
"""

import select
import socket
import struct
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from dfml.errors import ApiError, ConfigError
from dfml.serving import huggingface, inference_v2, tf_serving
from dfml.serving.faults import error_response, malformed
from dfml.serving.hosted import Hosted
from dfml.serving.messages import HttpError, PredictionRequest, Request, Response, json_response

LARGEST_BODY = 256 * 2**20
IDLE_S = 300.0


class Server(ThreadingHTTPServer):
    """The APIs of `zoo` at `host`:`port`; port 0 takes a free one. Call `serve_forever`; `stop` ends it."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, zoo: Hosted, host: str = "127.0.0.1", port: int = 0) -> None:
        self.zoo = zoo
        try:
            super().__init__((host, port), Handler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ConfigError(f"cannot listen at {host}:{port}: {reason}; choose another --host or --port") from None

    @property
    def url(self) -> str:
        host, port = self.server_address[:2]
        return f"http://{host!s}:{port}"

    def server_bind(self) -> None:
        # The base class also asks the resolver for the host's full name, which may take seconds and is never used.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def shutdown_request(self, request: Any) -> None:
        # The base class says goodbye first, which would turn a reset into a proper end.
        self.close_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no error; anything else is shown."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # header and body leave together
    timeout = IDLE_S

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed."""

    def _serve(self) -> None:
        try:
            found = self._route(self._read())
            if isinstance(found, PredictionRequest):
                self._predict(found)
            else:
                self._write(found)
        except HttpError as error:
            self._write(json_response({"error": str(error)}, error.status))
        except ApiError as error:
            self._write(json_response({"error": str(error)}, 500))

    def _read(self) -> Request:
        told = self.headers.get("Content-Length", "0" if self.command == "GET" else "")
        if not told.isascii() or not told.isdigit():
            self.close_connection = True
            raise HttpError(411, "a request needs its Content-Length")
        if int(told) > LARGEST_BODY:
            self.close_connection = True
            raise HttpError(413, f"a body of {told} bytes is too large; at most {LARGEST_BODY} are taken")
        body = self.rfile.read(int(told))
        if len(body) < int(told):
            raise ConnectionAbortedError("the client went away in the middle of its request")
        return Request(self.command, self.path.partition("?")[0], self.headers, body)

    def _route(self, request: Request) -> Response | PredictionRequest:
        zoo, path = self.server.zoo, request.path
        if path == "/stats" and request.method == "GET":
            return json_response(zoo.stats.to_json())
        if path == "/v2" or path.startswith("/v2/"):
            return inference_v2.route(zoo, request)
        if path.startswith("/v1/"):
            return tf_serving.route(zoo, request)
        if path.startswith(huggingface.PREFIX):
            return huggingface.route(zoo, request)
        raise HttpError(404, f"there is no {path}")

    def _predict(self, asked: PredictionRequest) -> None:
        """The only way to a model: limits, faults, delay, answer, count."""
        zoo = self.server.zoo
        if asked.api in zoo.limits and not zoo.limits[asked.api].admits():
            return self._write(json_response({"error": "rate limit exceeded"}, 429, headers={"Retry-After": "1"}))
        fault, draw = zoo.faults.next(asked.api)
        if zoo.config.latency_s:
            time.sleep(zoo.config.latency_s)
        match fault:
            case None:
                self._answer(asked)
            case "reset":
                self._reset()
            case "timeout":
                self._hang(zoo.config.faults.hang_s)
            case "truncated":
                self._write(asked.answer(), cut=True)
            case "malformed":
                self._write(malformed(asked.answer(), draw))
            case _:
                self._write(error_response(fault, draw))

    def _answer(self, asked: PredictionRequest) -> None:
        """The good case. It is counted first, so that a client that has an answer finds it counted."""
        response, stats = asked.answer(), self.server.zoo.stats
        if self._abandoned():
            raise ConnectionAbortedError("the client went away before its answer was ready")
        stats.add(asked.api, response.images)
        try:
            self._write(response)
        except OSError:
            stats.add(asked.api, -response.images)
            raise

    def _write(self, response: Response, *, cut: bool = False) -> None:
        """Send the whole response, or its first half and hang up."""
        self.send_response(response.status)
        for name, value in response.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(response.body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(response.body[: len(response.body) // 2] if cut else response.body)
        self.wfile.flush()
        self.close_connection |= cut

    def _abandoned(self) -> bool:
        """Whether the client has hung up: then the answer reaches no client and does not count."""
        return self._stirs(0) and not self.connection.recv(1, socket.MSG_PEEK)

    def _hang(self, seconds: float) -> None:
        """Say nothing until the client gives up or the time is over, then hang up."""
        self._stirs(seconds)
        self.close_connection = True

    def _stirs(self, seconds: float) -> bool:
        """Whether anything comes from the client within that time: the next request, or its end."""
        poll = select.poll()
        poll.register(self.connection, select.POLLIN)
        return bool(poll.poll(1000 * seconds))

    def _reset(self) -> None:
        """Hang up the rude way: the client sees a reset instead of an end."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
