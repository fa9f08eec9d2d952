"""Values that no text may show: they hide themselves, and what servers echo of them is blotted out."""

import json
import re
from collections.abc import Iterable, Mapping
from urllib.parse import quote

from dfml.errors import ConfigError

_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SHORTEST = 4
"""Words below this length are no secrets, and blotting them out would make texts unreadable."""


class Secret:
    """A text that shows itself only when `reveal` is called: not in repr, str, formatting, pickles or comparisons."""

    __slots__ = ("_text",)  # no __dict__, so that `vars` and what is built on it find nothing

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return "Secret(***)"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return "***"

    def __reduce__(self) -> str:
        raise TypeError("a secret does not travel between processes; load the manifest there")


def expand(text: str, environment: Mapping[str, str], *, where: str) -> str:
    """`text` with every ${NAME} replaced by the environment's value; `where` begins the complaint if there is none."""

    def value(reference: re.Match[str]) -> str:
        name = reference[1]
        if not environment.get(name):
            raise ConfigError(f"{where} needs the environment variable {name}, which is not set; export it first")
        return environment[name].strip()  # a key read from a file often ends in a newline, which no header may hold

    return _REFERENCE.sub(value, text)


def references(text: str, environment: Mapping[str, str]) -> list[str]:
    """The values of all ${NAME} in `text`."""
    return [environment[name].strip() for name in _REFERENCE.findall(text) if environment.get(name)]


class Redactor:
    """Blots secrets out of texts: as they are, word by word, and as URLs and JSON would write them."""

    def __init__(self, secrets: Iterable[str]) -> None:
        words = {word for secret in secrets for word in (secret, *secret.split()) if len(word) >= _SHORTEST}
        forms = {form for word in words for form in (word, quote(word), quote(word, safe=""), json.dumps(word)[1:-1])}
        longest_first = sorted(forms, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)), re.IGNORECASE) if forms else None

    def __call__(self, text: str) -> str:
        return text if self._pattern is None else self._pattern.sub("***", text)
