"""Frozen dataclasses <-> TOML tables and `key=value` overrides; wrong keys and values are refused by name."""

import dataclasses
import tomllib
import types
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from dfml.errors import ConfigError, nearest

T = TypeVar("T")


def from_mapping(cls: type[T], values: Mapping[str, Any], *, where: str) -> T:
    """Build the dataclass `cls`, nested dataclasses included. `where` begins every complaint."""
    hints = get_type_hints(cls)
    names = {field.name for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    arguments = {}
    for key, value in values.items():
        if key not in names:
            raise ConfigError(f"{where}: unknown key {key!r}; {nearest(key, names)}")
        arguments[key] = _fit(hints[key], value, f"{where}: {key}")
    missing = [
        field.name
        for field in dataclasses.fields(cls)  # type: ignore[arg-type]
        if field.name not in arguments
        and field.default is dataclasses.MISSING
        and field.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise ConfigError(f"{where}: {', '.join(missing)} is missing; add it")
    return cls(**arguments)


def to_mapping(config: Any) -> dict[str, Any]:
    """What `from_mapping` reads back: plain tables, lists and scalars; absent where the value is None."""
    table: dict[str, Any] = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            table[field.name] = to_mapping(value)
        elif isinstance(value, tuple):
            table[field.name] = list(value)
        elif value is not None:
            table[field.name] = value
    return table


def override(config: T, assignments: Iterable[str]) -> T:
    """`config` with each `dotted.key=value` applied; the value is read as TOML, else taken as a string."""
    table = to_mapping(config)
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        if not equals:
            raise ConfigError(f"--set {assignment}: expected key=value, for instance recovery.directions=10")
        *outer, last = path.strip().split(".")
        inner, cls = table, type(config)
        for name in outer:
            hints = get_type_hints(cls)
            if not dataclasses.is_dataclass(hints.get(name)):
                groups = [n for n, hint in hints.items() if dataclasses.is_dataclass(hint)]
                raise ConfigError(f"--set {path}: unknown group {name!r}; {nearest(name, groups)}")
            inner, cls = inner[name], hints[name]
        names = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
        if last not in names:
            raise ConfigError(f"--set {path}: unknown key {last!r}; {nearest(last, names)}")
        inner[last] = _parse(text.strip())
    return from_mapping(type(config), table, where="--set")


def above_zero(config: Any, group: str, *names: str) -> None:
    """Refuse `config` where one of these fields is 0, negative or no number; `group` is its name in `--set`."""
    for name in names:
        if not (value := getattr(config, name)) > 0:
            raise ConfigError(f"{group}.{name} must be above 0, not {value}")


def zero_or_more(config: Any, group: str, *names: str) -> None:
    """Refuse `config` where one of these fields is negative or no number."""
    for name in names:
        if not (value := getattr(config, name)) >= 0:
            raise ConfigError(f"{group}.{name} must be 0 or more, not {value}")


def _parse(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _fit(hint: Any, value: Any, where: str) -> Any:
    """`value` as the type `hint`, where that loses nothing."""
    origin, choices = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        if value is None:
            return None
        (hint,) = [choice for choice in choices if choice is not type(None)]
        return _fit(hint, value, where)
    if origin is Literal:
        if value not in choices:
            raise ConfigError(f"{where}: {value!r} is not one of {', '.join(map(str, choices))}")
        return value
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise ConfigError(f"{where}: expected a list, got {value!r}")
        if len(choices) == 2 and choices[1] is Ellipsis:
            return tuple(_fit(choices[0], item, where) for item in value)
        if len(value) != len(choices):
            raise ConfigError(f"{where}: expected {len(choices)} values, got {len(value)}")
        return tuple(_fit(choice, item, where) for choice, item in zip(choices, value, strict=True))
    if origin is dict:
        if not isinstance(value, Mapping):
            raise ConfigError(f"{where}: expected a table, got {value!r}")
        return {str(key): _fit(choices[1], item, where) for key, item in value.items()}
    if dataclasses.is_dataclass(hint):
        if isinstance(value, Mapping):
            return from_mapping(hint, value, where=where)  # type: ignore[arg-type]
        if isinstance(value, hint):  # type: ignore[arg-type]
            return value
        raise ConfigError(f"{where}: expected a table, got {value!r}")
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise ConfigError(f"{where}: expected {hint.__name__}, got {value!r}")
    return value
