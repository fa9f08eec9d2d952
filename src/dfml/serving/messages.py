"""What passes between the wire and the routes: a request, a response, and a asked that only a model can answer."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.message import Message
from typing import Any

JSON = "application/json"


@dataclass(frozen=True)
class Request:
    """One HTTP request, read to its end."""

    method: str
    path: str
    """without the query string"""
    headers: Message
    body: bytes

    def json(self) -> dict[str, Any]:
        """The body as a JSON object; `HttpError` if it is none."""
        return parse_object(self.body)


@dataclass(frozen=True)
class Response:
    """One HTTP response; `images` is how many were answered by it, to be counted once it is written."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    images: int = 0


@dataclass(frozen=True)
class PredictionRequest:
    """A request for predictions: the model it is for, and the work. Only these are limited and hit by faults."""

    api: str
    answer: Callable[[], Response]


class HttpError(Exception):
    """The client is told why: `status` and one sentence."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def json_response(
    value: Any, status: int = 200, *, images: int = 0, headers: Mapping[str, str] | None = None
) -> Response:
    """`value` as JSON. Python writes floats with all digits, so a float32 arrives with the bits it left with."""
    body = json.dumps(value, separators=(",", ":")).encode()
    return Response(status, body, {"Content-Type": JSON, **(headers or {})}, images)


def parse_object(text: bytes) -> dict[str, Any]:
    """JSON text as a dict; anything else is `HttpError`."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise HttpError(400, f"the body is not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise HttpError(400, f"expected a JSON object, got {type(value).__name__}")
    return value
