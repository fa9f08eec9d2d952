"""`apis.toml` and `zoo.toml`: a readable list of APIs, and the APIs it describes.

[defaults]                      # optional; every API below inherits these keys
image = [3, 32, 32]

[apis.birds]
protocol = "onnx"
file = "birds.onnx"             # relative to this file
classes = ["heron", "gull"]
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tomli_w

from dfml.apis.blackbox import ApiSpec
from dfml.config import from_mapping, nearest, to_mapping
from dfml.errors import ConfigError
from dfml.nets import Arch

NAMES = ("apis.toml", "zoo.toml")
_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, kw_only=True)
class ApiEntry:
    """One API's table."""

    protocol: Literal["onnx"] = "onnx"
    """how it is asked"""
    file: str | None = None
    """the model file, relative to the manifest"""
    classes: tuple[str, ...]
    """class names in the order of the scores"""
    image: tuple[int, int, int]
    """channels, height and width of what it takes"""
    accuracy: float | None = None
    """reported accuracy as a fraction"""
    dataset: str | None = None
    """where a zoo took its classes from"""
    arch: Arch | None = None
    """what a zoo trained; unknown for a stranger's API"""
    width: int | None = None
    """filters of the first layer of `arch`"""
    weights: str | None = None
    """safetensors of `arch`, for the white-box bound only; relative to the manifest"""
    seed: int | None = None
    """what a zoo trained it with"""


def find_manifest(path: Path) -> Path:
    """The manifest meant by `path`: the file itself, or the apis.toml or zoo.toml in that folder."""
    if path.is_file():
        return path
    for name in NAMES:
        if (path / name).is_file():
            return path / name
    if path.is_dir():
        raise ConfigError(f"{path} holds neither apis.toml nor zoo.toml; name the manifest or build a zoo there first")
    raise ConfigError(f"{path} does not exist; name an apis.toml or a zoo folder")


def read_manifest(path: Path) -> tuple[dict[str, ApiEntry], dict[str, Any]]:
    """The APIs by name, in the manifest's order, and the table `[zoo]` that tells how a zoo was built."""
    path = find_manifest(path)
    try:
        tables = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as error:
        twice = "; API names must differ" if "twice" in str(error) or "overwrite" in str(error) else ""
        raise ConfigError(f"{path} is not valid TOML: {error}{twice}") from None
    for key in tables:
        if key not in ("defaults", "apis", "zoo"):
            raise ConfigError(f"{path}: unknown table [{key}]; {nearest(key, ('defaults', 'apis', 'zoo'))}")
    defaults, apis = tables.get("defaults", {}), tables.get("apis", {})
    if not apis:
        raise ConfigError(f"{path} names no API; add a table such as [apis.birds]")
    entries = {}
    folded: dict[str, str] = {}
    for name, table in apis.items():
        check_name(name, path)
        # Each API gets files of its own, and some file systems do not tell a from A.
        if name.casefold() in folded:
            raise ConfigError(f"{path}: API names {folded[name.casefold()]} and {name} differ only in case; rename one")
        folded[name.casefold()] = name
        entries[name] = from_mapping(ApiEntry, {**defaults, **table}, where=f"{path}: [apis.{name}]")
    return entries, tables.get("zoo", {})


def check_name(name: str, path: Path) -> None:
    """Refuse what could not be the name of a file."""
    if not _SAFE_NAME.fullmatch(name):
        raise ConfigError(
            f"{path}: API name {name!r} must be letters, digits, '.', '_' and '-', beginning with a letter or digit"
        )


def write_manifest(path: Path, entries: Mapping[str, ApiEntry], *, zoo: Mapping[str, Any] | None = None) -> None:
    """Write atomically: a reader sees the old file or the new one."""
    tables: dict[str, Any] = {"zoo": dict(zoo)} if zoo else {}
    tables["apis"] = {name: to_mapping(entry) for name, entry in entries.items()}
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(tomli_w.dumps(tables))
    fresh.replace(path)


def entry_spec(name: str, entry: ApiEntry) -> ApiSpec:
    """What `entry` promises of the API."""
    return ApiSpec(name=name, classes=entry.classes, image=entry.image, accuracy=entry.accuracy)


def mean_accuracy(entries: Mapping[str, ApiEntry]) -> float | None:
    """The mean of the reported accuracies, if there are any."""
    reported = [entry.accuracy for entry in entries.values() if entry.accuracy is not None]
    return sum(reported) / len(reported) if reported else None


def cover_rate(entries: Mapping[str, ApiEntry], zoo: Mapping[str, Any]) -> float | None:
    """The fraction of a zoo's train classes that at least one API knows; unknown for strangers' APIs."""
    if "train_classes" not in zoo:
        return None
    covered = {(entry.dataset, name) for entry in entries.values() for name in entry.classes}
    return len(covered) / sum(map(int, zoo["train_classes"].values()))
