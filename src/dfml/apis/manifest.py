"""`apis.toml` and `zoo.toml`: a readable list of APIs, and the APIs it describes.

[defaults]                      # optional; every API below inherits these keys, groups key by key
image = [3, 32, 32]

[apis.birds]
protocol = "onnx"
file = "birds.onnx"             # relative to this file
classes = ["heron", "gull"]

[apis.boats]
protocol = "inference_v2"
url = "https://models.example.org"
model = "boats"
classes = ["ketch", "sloop"]
headers = { Authorization = "Bearer ${BOATS_TOKEN}" }
limits = { rate = 10 }
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tomli_w

from dfml.apis.entry import ApiEntry, checked, entry_table
from dfml.config import from_mapping
from dfml.errors import ConfigError, nearest
from dfml.files import write_whole
from dfml.schema import schema_of

__all__ = [
    "ApiEntry",
    "Manifest",
    "check_name",
    "find_manifest",
    "manifest_schema",
    "manifest_text",
    "read_manifest",
    "told_apart",
    "write_manifest",
]

NAMES = ("apis.toml", "zoo.toml")
_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True)
class Manifest:
    """What one file says."""

    path: Path
    entries: dict[str, ApiEntry]
    """the APIs by name, in the file's order"""
    zoo: dict[str, Any]
    """the table `[zoo]`: how a zoo was built"""

    def chosen(self, only: Iterable[str] | None) -> dict[str, ApiEntry]:
        """All APIs, or those named in `only`."""
        names = list(self.entries if only is None else only)
        for name in names:
            if name not in self.entries:
                raise ConfigError(f"{self.path}: no API named {name!r}; {nearest(name, self.entries)}")
        return {name: self.entries[name] for name in names}

    def where(self, name: str) -> str:
        """What a sentence about one of the APIs begins with."""
        return f"{self.path}: [apis.{name}]"


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


def read_manifest(path: Path) -> Manifest:
    """The manifest that `path` names: the file, or the apis.toml or zoo.toml in that folder."""
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
    if not isinstance(apis, dict) or not isinstance(defaults, dict):
        wrong = "apis" if not isinstance(apis, dict) else "defaults"
        meant = "[apis.birds], one table an API" if wrong == "apis" else "[defaults], a table of keys"
        raise ConfigError(f"{path}: {wrong} should be written as {meant}, not as a list or a value")
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
        where = f"{path}: [apis.{name}]"
        if not isinstance(table, dict):
            raise ConfigError(f"{where} should be a table of keys, not {table!r}")
        entry = from_mapping(ApiEntry, _merged(defaults, table), where=where)
        entries[name] = checked(_with_labels(entry, path.parent, where), where)
    return Manifest(path, entries, tables.get("zoo", {}))


def manifest_schema() -> dict[str, Any]:
    """The JSON schema of a manifest. Required keys are not in it, because `[defaults]` may hold them."""
    entry = schema_of(ApiEntry)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "apis.toml of dfml",
        "type": "object",
        "additionalProperties": False,
        "required": ["apis"],
        "properties": {
            "defaults": entry | {"description": "keys that every API inherits"},
            "apis": {
                "type": "object",
                "minProperties": 1,
                "propertyNames": {"pattern": f"^{_SAFE_NAME.pattern}$"},
                "additionalProperties": entry,
            },
            "zoo": {"type": "object", "description": "how a zoo was built; written by dfml zoo build"},
        },
    }


def _merged(defaults: Mapping[str, Any], table: Mapping[str, Any]) -> dict[str, Any]:
    """The defaults under the API's own keys, group by group."""
    both = {**defaults, **table}
    for key, value in table.items():
        if isinstance(value, dict) and isinstance(defaults.get(key), dict):
            both[key] = {**defaults[key], **value}
    return both


def _with_labels(entry: ApiEntry, folder: Path, where: str) -> ApiEntry:
    """With the classes from the file `labels`, where that is given."""
    if entry.labels is not None and entry.classes:
        raise ConfigError(f"{where}: classes and labels say the same twice; remove one")
    if entry.labels is None:
        if not entry.classes:
            raise ConfigError(f"{where}: classes is missing; add it, or labels = 'a text file with one name a line'")
        return entry
    try:
        lines = (folder / entry.labels).read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{where}: cannot read the class names in {entry.labels}: {error}") from None
    return replace(entry, classes=told_apart(line.strip() for line in lines if line.strip()), labels=None)


def told_apart(names: Iterable[str]) -> tuple[str, ...]:
    """`names` in order, with numbers where one stands twice: crane, crane (2). Published lists have such words."""
    names, seen = list(names), dict[str, int]()
    taken, apart = set(names), list[str]()
    for name in names:
        seen[name] = count = seen.get(name, 0) + 1
        while count > 1 and f"{name} ({count})" in taken:
            seen[name] = count = count + 1
        apart.append(name if count == 1 else f"{name} ({count})")
    return tuple(apart)


def check_name(name: str, path: Path) -> None:
    """Refuse what could not be the name of a file."""
    if not _SAFE_NAME.fullmatch(name):
        raise ConfigError(
            f"{path}: API name {name!r} must be letters, digits, '.', '_' and '-', beginning with a letter or digit"
        )


def write_manifest(path: Path, entries: Mapping[str, ApiEntry], *, zoo: Mapping[str, Any] | None = None) -> None:
    """Write atomically: a reader sees the old file or the new one."""
    tables: dict[str, Any] = {"zoo": dict(zoo)} if zoo else {}
    tables["apis"] = {name: entry_table(entry) for name, entry in entries.items()}
    write_whole(path, tomli_w.dumps(tables).encode())


def manifest_text(entries: Mapping[str, ApiEntry], *, headers: Mapping[str, str], notes: Iterable[str]) -> str:
    """A manifest for people: what is still open on top, keys that all APIs share in `[defaults]`."""
    tables = {name: entry_table(entry) for name, entry in entries.items()}
    first = next(iter(tables.values()), {})
    shared = [
        key
        for key in first
        if key not in ("model", "classes") and all(t.get(key) == first[key] for t in tables.values())
    ]
    defaults = {key: first[key] for key in shared} if len(tables) > 1 else {}
    if headers:
        defaults["headers"] = dict(headers)
    own = {name: {key: value for key, value in t.items() if key not in defaults} for name, t in tables.items()}
    lines = [f"# to do: {note}\n" for note in notes]
    return "".join(lines) + tomli_w.dumps(({"defaults": defaults} if defaults else {}) | {"apis": own})
