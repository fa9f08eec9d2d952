"""A JSON schema for any configuration dataclass, so that editors complete and check what users write."""

import ast
import dataclasses
import inspect
import textwrap
import types
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

_SCALARS: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}


def schema_of(cls: type) -> dict[str, Any]:
    """An object with the fields of `cls` and no others; each with its type, its default and its documentation."""
    hints, notes = get_type_hints(cls), _notes(cls)
    properties = {}
    for field in dataclasses.fields(cls):
        described = _schema(hints[field.name])
        if field.name in notes:
            described["description"] = notes[field.name]
        if isinstance(field.default, str | int | float | bool):
            described["default"] = field.default
        properties[field.name] = described
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _schema(hint: Any) -> dict[str, Any]:
    origin, choices = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        (hint,) = [choice for choice in choices if choice is not type(None)]  # TOML has no null: left out instead
        return _schema(hint)
    if origin is Literal:
        return {"enum": list(choices)}
    if origin is tuple:
        if choices[1:] == (Ellipsis,):
            return {"type": "array", "items": _schema(choices[0])}
        return {"type": "array", "items": _schema(choices[0]), "minItems": len(choices), "maxItems": len(choices)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema(choices[1])}
    if dataclasses.is_dataclass(hint):
        return schema_of(hint)  # type: ignore[arg-type]
    return {"type": _SCALARS[hint]}


def _notes(cls: type) -> dict[str, str]:
    """The texts that stand under the fields of a class in its source."""
    body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    assert isinstance(body, ast.ClassDef)
    notes = {}
    for field, text in zip(body.body, body.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
            and isinstance(text.value.value, str)
        ):
            notes[field.target.id] = " ".join(text.value.value.split())
    return notes
