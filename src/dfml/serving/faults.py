"""What goes wrong on purpose, and when: the n-th request to an API fails or not by seed, API and n alone."""

import random
import threading
from collections import Counter
from dataclasses import dataclass

from dfml.errors import ConfigError, nearest
from dfml.serving.messages import Response, json_response

KINDS = ("429", "500", "503", "reset", "timeout", "truncated", "malformed")


@dataclass(frozen=True, kw_only=True)
class FaultConfig:
    """Faults on demand. They hit requests for predictions and nothing else; a request that was hit answers nothing."""

    rate: float = 0.0
    """the fraction of requests that fail"""
    kinds: tuple[str, ...] = KINDS
    """how they fail, each as often as the others"""
    apis: tuple[str, ...] = ()
    """only these APIs fail; empty: all"""
    hang_s: float = 30.0
    """how long a "timeout" keeps its client waiting before it hangs up"""
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.rate <= 1:
            raise ConfigError(f"--fail-rate is a fraction from 0 to 1, got {self.rate}")
        for kind in self.kinds:
            if kind not in KINDS:
                raise ConfigError(f"unknown fault {kind!r}; {nearest(kind, KINDS)}")


class Faults:
    """Chooses the fault of every request."""

    def __init__(self, config: FaultConfig) -> None:
        self.config = config
        self._requests: Counter[str] = Counter()
        self._lock = threading.Lock()

    def next(self, api: str) -> tuple[str | None, random.Random]:
        """The fault of the next request to `api`, or None, and a generator for its details."""
        with self._lock:
            number = self._requests[api]
            self._requests[api] += 1
        draw = random.Random(f"{self.config.seed} {api} {number}")
        spared = bool(self.config.apis) and api not in self.config.apis
        hit = draw.random() < self.config.rate and not spared
        return draw.choice(self.config.kinds) if hit else None, draw


def error_response(kind: str, draw: random.Random) -> Response:
    """The faults that are proper responses: 429 with or without Retry-After, 500, and 503 as of a model that loads."""
    if kind == "429":
        headers = {"Retry-After": "1"} if draw.random() < 0.5 else {}
        return json_response({"error": "too many requests"}, 429, headers=headers)
    if kind == "503":
        return json_response({"error": "the model is loading", "estimated_time": 0.1}, 503)
    return json_response({"error": "internal server error"}, 500)


def malformed(response: Response, draw: random.Random) -> Response:
    """A response that ends as announced and says nothing: half the body, another object, or a web page."""
    page = b"<html><body>Service temporarily unavailable</body></html>"
    body = draw.choice([response.body[: len(response.body) // 2], b"{}", page, b""])
    return Response(response.status, body, response.headers)
