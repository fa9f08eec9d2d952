"""When to send, when to wait, when to try again and when to give an API up: one policy for every remote."""

import random
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime

from dfml.apis.remote.host import HttpResponse
from dfml.apis.remote.limits import Limits
from dfml.apis.remote.reading import read_json, shown
from dfml.errors import ApiError, Garbled, RateLimited, Refused, Unreachable


class TooLarge(Refused):
    """The request has too many bytes; half of it may pass."""


GARBLED_TRIES = 5
"""An answer that cannot be read may have been paid for, so fewer of them are asked for again."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""seconds of back-off after the first failure, and at most; between, it doubles"""
LONGEST_WAIT = 1e6
"""seconds that a server can ask for; more is taken for a mistake"""
_PASSING = (408, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524)


class NotSent(Unreachable):
    """Nothing was sent: the breaker is open, or the run ends."""


class AskedToWait(RateLimited):
    """The server asks us to come back later."""

    def __init__(self, sentence: str, seconds: float | None = None) -> None:
        super().__init__(sentence)
        self.seconds = seconds


def judge(reply: HttpResponse) -> None:
    """Return if the server says that all is well, else raise what its status means, with what it says."""
    if 200 <= reply.status < 300:
        return
    sentence = f"it answered {reply.status}{complaint(reply.body)}"
    if reply.status == 413:
        raise TooLarge(sentence)
    if reply.status not in _PASSING:
        raise Refused(sentence)
    now = time.time()
    seconds = wait_asked_for(reply, now)
    if reply.status == 429 or seconds is not None:
        raise AskedToWait(f"{sentence} ({_when(seconds, now)})", seconds)
    raise Unreachable(sentence)


def complaint(body: bytes) -> str:
    """`: what the server says`, from any of the ways in which servers say it; nothing where it says nothing."""
    try:
        told = read_json(body)
    except Garbled:
        told = body.decode("utf-8", "replace")
    while isinstance(told, dict | list) and told:
        if isinstance(told, list):
            told = told[0]
            continue
        keys = [key for key in ("error", "detail", "message", "msg", "title") if told.get(key)]
        if not keys:
            break
        told = told[keys[0]]
    text = shown(told)
    return f": {text}" if text not in ("", "{}", "[]", "null", '""') else ""


def wait_asked_for(reply: HttpResponse, now: float) -> float | None:
    """Seconds from Retry-After, as a number or a date, or from Hugging Face's `estimated_time`."""
    text = reply.headers.get("retry-after", "").strip()
    if text:
        try:
            return min(max(0.0, float(text) if text.replace(".", "", 1).isdigit() else _until(text, now)), LONGEST_WAIT)
        except (ValueError, TypeError, OverflowError, IndexError):
            return None
    try:
        told = read_json(reply.body)
    except Garbled:
        return None
    seconds = told.get("estimated_time") if isinstance(told, Mapping) else None
    return min(float(seconds), LONGEST_WAIT) if isinstance(seconds, int | float) and seconds >= 0 else None


def _when(seconds: float | None, now: float) -> str:
    """When a server wants to be asked again, in words."""
    if seconds is None:
        return "it does not say until when"
    clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now + seconds))
    return f"it asks us to come back in {seconds:,.0f} s, at {clock}"


def _until(date: str, now: float) -> float:
    return parsedate_to_datetime(date).timestamp() - now


@dataclass
class Attempt:
    """What has become of one request so far."""

    stopped: threading.Event = field(default_factory=threading.Event)
    """set when the call that it belongs to is to end"""
    begun: float = field(default_factory=time.monotonic)
    failed: int = 0
    garbled: int = 0
    asked: int = 0

    def count(self, error: ApiError) -> None:
        """Add a failure."""
        self.failed += 1
        self.garbled += isinstance(error, Garbled)


class Gate:
    """One API's door: the rate at which requests pass, the pauses that it asks for, and the circuit breaker.

    The breaker opens when a request is given up: for a while no request passes, so that a dead API costs others no
    time. Then requests pass again, with a single try each until one is answered; while none is, the door stays closed
    for twice as long each time.
    """

    COOLDOWN, LONGEST_COOLDOWN, LONGEST_REST = 10.0, 300.0, 3600.0

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._lock, self._stopped = threading.Lock(), threading.Event()  # the latter is of all calls under way
        self._next = self._paused_until = self._closed_until = 0.0
        self._cooldown, self._reason = 0.0, ""
        self._answered_at = time.monotonic()
        self._jitter = random.Random()  # of waiting times alone: no result depends on it

    def begin(self) -> threading.Event:
        """For a new call: what is set when it, and all others that have begun by then, are to end."""
        with self._lock:
            return self._stopped

    def enter(self, attempt: Attempt) -> None:
        """Wait for our turn; `NotSent` while the breaker is open."""
        with self._lock:
            now = time.monotonic()
            if now < self._closed_until:
                raise NotSent(f"{self._reason} (tried again in {self._closed_until - now:.0f} s)")
            start = max(now, self._next, self._paused_until)
            if self.limits.rate is not None:
                self._next = start + 1 / self.limits.rate
        _wait(attempt.stopped, start - now)

    def take_over(self) -> None:
        """Another process has sent until now: the first request here waits as if that one had just sent its last."""
        if self.limits.rate is not None:
            with self._lock:
                self._next = time.monotonic() + 1 / self.limits.rate

    def answered(self) -> None:
        """The server speaks: whatever was wrong is over."""
        with self._lock:
            self._answered_at, self._closed_until, self._cooldown = time.monotonic(), 0.0, 0.0

    def failed(self, error: ApiError, attempt: Attempt) -> None:
        """Wait before the next try of a request, or raise `error` and shut the door if this was the last."""
        with self._lock:
            probation, answered_at = self._cooldown > 0, self._answered_at
        if isinstance(error, AskedToWait):
            # A server that says when it will be back is believed, as long as anybody gets answers meanwhile.
            attempt.asked += 1
            pause = max(self._back_off(attempt.asked), error.seconds or 0.0)
            waited = time.monotonic() - max(attempt.begun, answered_at)
            if probation or waited + pause > self.limits.patience:
                self._shut(error, at_least=error.seconds or 0.0)
                raise AskedToWait(f"{error}; limits.patience is {self.limits.patience:g} s", error.seconds)
            with self._lock:
                self._paused_until = max(self._paused_until, time.monotonic() + pause)
            return
        attempt.count(error)
        if probation or attempt.failed > self.limits.retries or attempt.garbled >= GARBLED_TRIES:
            self._shut(error)
            raise error
        _wait(attempt.stopped, self._back_off(attempt.failed))

    def stop(self) -> None:
        """End all waiting, because the run ends; calls that begin later are of another run."""
        with self._lock:
            stopped, self._stopped = self._stopped, threading.Event()
        stopped.set()

    def _back_off(self, failures: int) -> float:
        pause = min(FIRST_PAUSE * 2.0 ** min(failures - 1, 20), LONGEST_PAUSE)
        return pause * self._jitter.uniform(0.5, 1.0)  # so that those who failed together do not return together

    def _shut(self, error: ApiError, *, at_least: float = 0.0) -> None:
        with self._lock:
            now = time.monotonic()
            if now >= self._closed_until:  # else somebody who set out with us has shut it
                self._cooldown = min(2 * self._cooldown or self.COOLDOWN, self.LONGEST_COOLDOWN)
            rest = max(self._cooldown, min(at_least, self.LONGEST_REST))
            self._closed_until, self._reason = max(self._closed_until, now + rest), str(error)


def _wait(stopped: threading.Event, seconds: float) -> None:
    if stopped.wait(max(0.0, seconds)) if seconds > 0 else stopped.is_set():
        raise NotSent("the run was stopped")
