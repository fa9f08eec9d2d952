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
from dfml.serving.faults import error_reply, malformed
from dfml.serving.hosted import Hosted
from dfml.serving.messages import Question, Refused, Reply, Request, reply_json

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
            if isinstance(found, Question):
                self._predict(found)
            else:
                self._write(found)
        except Refused as refusal:
            self._write(reply_json({"error": str(refusal)}, refusal.status))
        except ApiError as error:
            self._write(reply_json({"error": str(error)}, 500))

    def _read(self) -> Request:
        told = self.headers.get("Content-Length", "0" if self.command == "GET" else "")
        if not told.isascii() or not told.isdigit():
            self.close_connection = True
            raise Refused(411, "a request needs its Content-Length")
        if int(told) > LARGEST_BODY:
            self.close_connection = True
            raise Refused(413, f"a body of {told} bytes is too large; at most {LARGEST_BODY} are taken")
        body = self.rfile.read(int(told))
        if len(body) < int(told):
            raise ConnectionAbortedError("the client went away in the middle of its request")
        return Request(self.command, self.path.partition("?")[0], self.headers, body)

    def _route(self, request: Request) -> Reply | Question:
        zoo, path = self.server.zoo, request.path
        if path == "/stats" and request.method == "GET":
            return reply_json(zoo.stats.to_json())
        if path == "/v2" or path.startswith("/v2/"):
            return inference_v2.route(zoo, request)
        if path.startswith("/v1/"):
            return tf_serving.route(zoo, request)
        if path.startswith(huggingface.PREFIX):
            return huggingface.route(zoo, request)
        raise Refused(404, f"there is no {path}")

    def _predict(self, question: Question) -> None:
        """The only way to a model: limits, faults, delay, answer, count."""
        zoo = self.server.zoo
        if question.api in zoo.limits and not zoo.limits[question.api].admits():
            return self._write(reply_json({"error": "rate limit exceeded"}, 429, headers={"Retry-After": "1"}))
        fault, draw = zoo.faults.next(question.api)
        if zoo.config.latency_s:
            time.sleep(zoo.config.latency_s)
        match fault:
            case None:
                self._answer(question)
            case "reset":
                self._reset()
            case "timeout":
                self._hang(zoo.config.faults.hang_s)
            case "truncated":
                self._write(question.answer(), cut=True)
            case "malformed":
                self._write(malformed(question.answer(), draw))
            case _:
                self._write(error_reply(fault, draw))

    def _answer(self, question: Question) -> None:
        """The good case. It is counted first, so that whoever has an answer finds it counted."""
        reply, stats = question.answer(), self.server.zoo.stats
        if self._abandoned():
            raise ConnectionAbortedError("the client went away before its answer was ready")
        stats.add(question.api, reply.images)
        try:
            self._write(reply)
        except OSError:
            stats.add(question.api, -reply.images)
            raise

    def _write(self, reply: Reply, *, cut: bool = False) -> None:
        """Send the whole response, or its first half and hang up."""
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(reply.body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(reply.body[: len(reply.body) // 2] if cut else reply.body)
        self.wfile.flush()
        self.close_connection |= cut

    def _abandoned(self) -> bool:
        """Whether the client has hung up: then nobody gets the answer, and it does not count."""
        return self._stirs(0) and not self.connection.recv(1, socket.MSG_PEEK)

    def _hang(self, seconds: float) -> None:
        """Say nothing until the client gives up or the time is over, then hang up."""
        self._stirs(seconds)
        self.close_connection = True

    def _stirs(self, seconds: float) -> bool:
        """Whether anything comes from the client within that time: the next request, or its end."""
        wire = select.poll()
        wire.register(self.connection, select.POLLIN)
        return bool(wire.poll(1000 * seconds))

    def _reset(self) -> None:
        """Hang up the rude way: the client sees a reset instead of an end."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
