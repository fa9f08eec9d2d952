"""Reading what strangers send: whatever it is, a value of the expected type comes out, or `Garbled`."""

import json
import math
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from dfml.errors import Garbled
from dfml.errors import blotting as blotting
from dfml.errors import shown as shown  # what reads servers' text also shows it


def read_json(body: bytes) -> Any:
    """The JSON in `body`: strict, so no NaN or Infinity, and never deeper than the parser can go."""
    try:
        return _STRICT.decode(body.decode(json.detect_encoding(body), "surrogatepass"))
    except RecursionError:
        raise Garbled("its answer is nested too deeply to be read") from None
    except ValueError as error:  # also undecodable text and numbers of thousands of digits
        what = "is empty" if not body.strip() else f"is no JSON ({shown(str(error), 80)}): {shown(body)}"
        raise Garbled(f"its answer {what}") from None


def _refuse(token: str) -> NoReturn:
    raise ValueError(f"the token {token} is no number")


_STRICT = json.JSONDecoder(parse_constant=_refuse)  # once: `json.loads` would make one for every answer


def member(value: Any, key: str, kind: type, what: str) -> Any:
    """`value[key]`, if `value` is an object that has it and it is of this kind."""
    found = value.get(key) if isinstance(value, dict) else None
    if not isinstance(found, kind) or (isinstance(found, bool) and kind is not bool):
        raise Garbled(f"{what} should have {key!r} with {_named(kind)} in it, but is {shown(value)}")
    return found


def numbers(value: Any, what: str) -> NDArray[np.float64]:
    """Nested lists of numbers as an array."""
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise Garbled(f"{what} should be a regular table of numbers, but is {shown(value)}") from None
    if array.dtype.kind not in "fiu":  # text, truth values, nulls, integers beyond 64 bits
        raise Garbled(f"{what} should be numbers, but is {shown(value)}")
    with np.errstate(over="ignore"):
        return array.astype(np.float64)


def number(value: Any, what: str) -> float:
    """One finite number."""
    if type(value) is float and math.isfinite(value):
        return value  # as nearly all are; an array takes longer than the rest of reading
    array = numbers(value, what)
    if array.shape != () or not np.isfinite(array):
        raise Garbled(f"{what} should be one number, but is {shown(value)}")
    return float(array)


def pairs(value: Any, what: str) -> list[tuple[str | int, float | None]]:
    """Classes with their scores, from [{"label": ..., "score": ...}, ...] or {label: score, ...}."""
    if isinstance(value, dict) and value and not isinstance(value.get("label"), str):
        return [(label, number(score, "a score")) for label, score in value.items()]
    if isinstance(value, dict) and value:
        value = [value]
    if not isinstance(value, list):
        raise Garbled(f"{what} should be a list of labels and scores, but is {shown(value)}")
    found: list[tuple[str | int, float | None]] = []
    one = f"an entry of {what}"
    for entry in value:
        label = member(entry, "label", str, one)
        score = entry.get("score")
        found.append((label, None if score is None else number(score, "a score")))
    return found


def _named(kind: type) -> str:
    return {list: "a list", dict: "an object", str: "a text", int: "a whole number"}.get(kind, kind.__name__)
