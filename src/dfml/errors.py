"""Everything dfml raises on purpose. Each message is one sentence a user can act on.

DfmlError
├── ConfigError        a setting, argument or file that cannot be right
├── DataError          real images that are not as their layout promises
├── ArtifactError      a file of ours that is damaged, foreign or of another version
└── ApiError           an API, named, and what it did
    ├── BudgetExceeded     the call would pass the budget, and was not sent
    ├── BadAnswer          it answered, but not with probabilities
    │   └── Garbled            the answer cannot even be read; the next one may be whole
    ├── Refused            it says that the request is wrong or not allowed: the same one again is useless
    ├── RateLimited        it asks us to slow down
    └── Unreachable        it does not answer
        └── Unanswered         the request was sent, and no answer came: perhaps it is paid for
            └── Lost               the process that asked it is gone, and what it had under way
"""

import difflib
import json
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any

SHOWN = 200
"""letters of a stranger's text that a sentence repeats"""
_BEYOND = 8192
"""letters after the last shown one that are looked at for secrets that begin before it"""
_blot: ContextVar[Callable[[str], str]] = ContextVar("_blot", default=str)


class DfmlError(Exception):
    """The base of every error that is the input's fault, not the program's."""


class ConfigError(DfmlError):
    """A setting, an argument or a file that cannot be right."""


class DataError(DfmlError):
    """Real images that are not as their layout promises."""


class ArtifactError(DfmlError):
    """A file that dfml wrote, damaged or of another version, or one it did not write."""


class ApiError(DfmlError):
    """Something an API did."""


class BudgetExceeded(ApiError):
    """The call would pass the budget; nothing was sent."""


class BadAnswer(ApiError):
    """The API answered, but not with one probability vector per image."""


class Garbled(BadAnswer):
    """The answer is cut off or malformed; asking again may give a whole one."""


class Refused(ApiError):
    """The API says that the request is malformed or not allowed, so the same request is useless."""


class RateLimited(ApiError):
    """The API asks for fewer queries per second."""


class Unreachable(ApiError):
    """The API does not answer."""


class Unanswered(Unreachable):
    """The request was sent, and no answer came: perhaps it is paid for."""


class Lost(Unanswered):
    """The process that asked the API is gone: what was under way may have been answered, and was not kept."""


def nearest(word: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown word: `did you mean 'x'?` or, when nothing is near, the whole list."""
    known = sorted(known)
    close = difflib.get_close_matches(word, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known are {', '.join(known)}"


def shown(value: Any, most: int = SHOWN) -> str:
    """A stranger's text on one line: short, printable, and without what could move a cursor."""
    if isinstance(value, bytes):
        value = value[: 8 * most + _BEYOND].decode("utf-8", "replace")
    try:
        text = value if isinstance(value, str) else json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        text = type(value).__name__
    text = _blot.get()(text[: 8 * most + _BEYOND])
    text = "".join(letter if letter.isprintable() else " " for letter in text[: 8 * most])
    text = " ".join(text.encode("utf-8", "replace").decode().split())
    return text if len(text) <= most else text[: most - 1] + "…"


class blotting:
    """Let `shown` blot out secrets before it cuts: half a secret would not be known for one."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        self._redact = redact

    def __enter__(self) -> None:
        self._before = _blot.set(self._redact)

    def __exit__(self, *_: object) -> None:
        _blot.reset(self._before)
