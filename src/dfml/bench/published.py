"""The paper's own numbers, each under the label of its table."""

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def _tables() -> dict[str, Any]:
    return tomllib.loads((files("dfml.bench") / "published.toml").read_text())


def published(table: str, dataset: str, key: str) -> list[dict[str, float]]:
    """[{"shot": 1, "mean": ..., "ci95": ...}, {"shot": 5, ...}], or nothing where the paper has no such number."""
    values = _tables().get(table, {}).get(dataset, {}).get(key)
    if values is None:
        return []
    one, one_interval, five, five_interval = values
    return [
        {"shot": 1, "mean": one, "ci95": one_interval},
        {"shot": 5, "mean": five, "ci95": five_interval},
    ]
