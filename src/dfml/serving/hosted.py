"""The APIs behind the server: degraded as asked for, and limited, each by itself."""

import re
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from dfml.apis.blackbox import ApiSpec, BlackBox
from dfml.apis.degrade import LabelOnly, Quantised, Rounded, TopK, leaders
from dfml.errors import ConfigError
from dfml.runtime import cores
from dfml.serving.faults import FaultConfig, Faults
from dfml.serving.messages import HttpError
from dfml.serving.stats import Stats


@dataclass(frozen=True, kw_only=True)
class ServeConfig:
    """How good an endpoint the server plays."""

    latency_s: float = 0.0
    """added to every prediction"""
    rate_limit: float | None = None
    """requests a second and API; more are answered with 429 and Retry-After"""
    max_batch: int | None = None
    """images a request; more are answered with 413"""
    bits: int | None = None
    """of a pixel; 8 is what a file keeps"""
    decimals: int | None = None
    """of a score"""
    top_k: int | None = None
    """scores an answer"""
    label_only: bool = False
    """nothing but the winner"""
    faults: FaultConfig = field(default_factory=FaultConfig)

    def __post_init__(self) -> None:
        if self.latency_s < 0:
            raise ConfigError(f"--latency-ms must be 0 or more, got {1000 * self.latency_s:g}")
        if self.rate_limit is not None and self.rate_limit <= 0:
            raise ConfigError(f"--rate-limit is a number of requests a second above 0, got {self.rate_limit:g}")
        if self.max_batch is not None and self.max_batch < 1:
            raise ConfigError(f"--max-batch is a number of images above 0, got {self.max_batch}")
        if self.bits is not None and not 1 <= self.bits <= 16:
            raise ConfigError(f"--bits is 1 to 16, got {self.bits}; files have 8")

    def worse_input(self, api: BlackBox) -> BlackBox:
        """`api` behind images of `bits` bits."""
        return api if self.bits is None else Quantised(api, 2**self.bits)

    def degraded(self, api: BlackBox) -> BlackBox:
        """`api` with worse input and output."""
        api = self.worse_input(api)
        if self.top_k is not None:
            api = TopK(api, self.top_k)
        if self.decimals is not None:
            api = Rounded(api, self.decimals)
        return LabelOnly(api) if self.label_only else api


class RateLimit:
    """A token bucket: `rate` requests a second, and a burst of one second's worth."""

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate, self.burst, self.clock = rate, max(1.0, rate), clock
        self._tokens, self._filled = self.burst, clock()
        self._lock = threading.Lock()

    def admits(self) -> bool:
        """Whether one more request may pass now."""
        with self._lock:
            now = self.clock()
            self._tokens = min(self.burst, self._tokens + (now - self._filled) * self.rate)
            self._filled = now
            if self._tokens < 1:
                return False
            self._tokens -= 1
            return True


class Hosted:
    """All APIs of one server by name. Threads may ask at once; each model computes on as many cores as there are."""

    def __init__(self, apis: Iterable[BlackBox], config: ServeConfig) -> None:
        self.config = config
        known = list(apis)
        self._exact = {api.spec.name: config.worse_input(api) for api in known}
        self.apis = {api.spec.name: config.degraded(api) for api in known}
        for name in config.faults.apis:
            if name not in self.apis:
                raise ConfigError(f"--fail-api {name}: there is no such API; the zoo has {', '.join(self.apis)}")
        self.stats = Stats(self.apis)
        self.faults = Faults(config.faults)
        self.limits = {name: RateLimit(config.rate_limit) for name in self.apis} if config.rate_limit else {}
        self._computing = {name: threading.BoundedSemaphore(cores()) for name in self.apis}

    def spec(self, name: str) -> ApiSpec:
        """What is known of `name`; 404 if nothing is."""
        if name not in self.apis:
            raise HttpError(404, f"there is no model {name!r}")
        return self.apis[name].spec

    def asked_for(self, path: str, pattern: re.Pattern[str]) -> tuple[ApiSpec, str | None]:
        """The model that a path names, and what is wanted of it: `pattern` has groups for name, version and that."""
        found = pattern.fullmatch(path)
        if not found:
            raise HttpError(404, f"there is no {path}")
        name, version, what = found.groups()
        spec = self.spec(name)
        if version not in (None, "1"):
            raise HttpError(404, f"model {name!r} has no version {version!r}, only '1'")
        return spec, what

    def ask(self, name: str, images: Tensor) -> Tensor:
        """Class probabilities (n, k) for images (n, c, h, w) in [0, 1]; what cannot be answered is `HttpError`."""
        return self._compute(name, self.apis[name], images)

    def ranked(self, name: str, images: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """The best `k` columns (n, k), best first, and their scores: an answer by label, which just ends after k.

        It ranks before it rounds, as `TopK` inside `Rounded` does, so both ways tell the same.
        """
        spec = self.apis[name].spec
        exact = self._compute(name, self._exact[name], images)
        top = leaders(exact, min(k, 1 if spec.output == "label" else spec.top_k or spec.way))
        scores = exact.gather(1, top)
        if spec.output == "label":
            scores = torch.ones_like(scores)
        return top, scores if spec.decimals is None else torch.round(scores, decimals=spec.decimals)

    def _compute(self, name: str, api: BlackBox, images: Tensor) -> Tensor:
        limit = self.config.max_batch
        if limit is not None and len(images) > limit:
            raise HttpError(413, f"{len(images)} images in one request; at most {limit} are taken")
        try:
            with self._computing[name]:
                return api(images)
        except ConfigError as error:
            raise HttpError(400, str(error)) from None


def to_lists(spec: ApiSpec, scores: Tensor) -> list[list[float]]:
    """Scores (n, k) for JSON: rounded ones with the decimals they have, others with all of theirs."""
    rows: list[list[float]] = scores.tolist()
    filled_up = spec.top_k is not None and scores.shape[1] == spec.way  # what fills it up is no rounded score
    if spec.decimals is None or filled_up:
        return rows
    return [[round(score, spec.decimals) for score in row] for row in rows]
