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
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import tomli_w

from dfml.apis.blackbox import ApiSpec, Terms
from dfml.apis.pixels import InputConfig
from dfml.apis.remote.limits import Limits
from dfml.apis.scores import OutputConfig
from dfml.config import from_mapping, to_mapping
from dfml.errors import ConfigError, nearest
from dfml.files import write_whole
from dfml.nets import Arch
from dfml.schema import schema_of

NAMES = ("apis.toml", "zoo.toml")
_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


ProtocolName = Literal["onnx", "tflite", "torch", "python", "inference_v2", "tf_serving", "huggingface", "json"]
REMOTE = ("inference_v2", "tf_serving", "huggingface", "json")


@dataclass(frozen=True, kw_only=True)
class ApiEntry:
    """One API's table."""

    protocol: ProtocolName = "onnx"
    """how it is asked: a local .onnx, .tflite or .pt2 file, a Python function, or a server"""
    file: str | None = None
    """onnx, tflite, torch: the model file, relative to the manifest"""
    function: str | None = None
    """python: module:function, float32 array (n, c, h, w) in [0, 1] -> probabilities (n, k); it is imported and run"""
    url: str | None = None
    """servers: the address before /v2, /v1 or /models, for json all of it; ${NAME} is taken from the environment"""
    model: str | None = None
    """servers: the model's name there"""
    version: str | None = None
    """servers: the model's version; left out: the server's choice"""
    classes: tuple[str, ...] = ()
    """class names in the order of the scores"""
    labels: str | None = None
    """instead of classes: a text file with one class name a line, relative to the manifest"""
    image: tuple[int, int, int]
    """channels, height and width of what it takes"""
    input: InputConfig = InputConfig()
    """what its images look like"""
    output: OutputConfig = OutputConfig()
    """what its answers look like"""
    limits: Limits = Limits()
    """how hard it may be pressed"""
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    """sent with every request; ${NAME} is taken from the environment, so that no secret stands in this file"""
    price: float | None = None
    """USD for 1,000 images"""
    budget: int | None = None
    """images it may be asked about in one run"""
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

    def spec(self, name: str) -> ApiSpec:
        """What the table promises of the API."""
        output = self.output
        return ApiSpec(
            name=name,
            classes=self.classes,
            image=self.image,
            output=output.kind,
            levels=self.input.levels,
            decimals=output.decimals,
            top_k=output.top_k if output.kind == "top-k" else None,
            accuracy=self.accuracy,
            terms=Terms(remote=self.protocol in REMOTE, price=self.price, budget=self.budget),
        )


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
        entries[name] = _checked(_with_labels(entry, path.parent, where), where)
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


_NEEDED = {"tflite": "file", "torch": "file", "python": "function", "inference_v2": "model", "tf_serving": "model"}
_FORMS = {
    "inference_v2": ("binary", "json"),
    "tf_serving": ("row", "column"),
    "huggingface": ("raw", "json"),
    "json": ("base64", "data-url"),
}


def _checked(entry: ApiEntry, where: str) -> ApiEntry:
    """The entry, if its keys can go together."""
    if entry.protocol in REMOTE and entry.url is None:
        raise ConfigError(f"{where}: protocol {entry.protocol} needs url; add the server's address")
    needed = _NEEDED.get(entry.protocol)
    if needed is not None and getattr(entry, needed) is None:
        raise ConfigError(f"{where}: protocol {entry.protocol} needs {needed}; add it")
    if min(entry.image) < 1:
        raise ConfigError(f"{where}: image = {list(entry.image)} should be channels, height and width, all above 0")
    if not (entry.budget or 0) >= 0 or not (entry.price or 0) >= 0:
        raise ConfigError(f"{where}: budget and price must be 0 or more")
    form, forms = entry.input.form, _FORMS.get(entry.protocol, ())
    if form is not None and form not in forms:
        raise ConfigError(f"{where}: input.form = {form!r} has no meaning for {entry.protocol}; remove it")
    if entry.protocol != "json":
        usual = ("field", InputConfig.field), ("many", InputConfig.many)
        foreign = [f"input.{key}" for key, value in usual if getattr(entry.input, key) != value]
        foreign += [f"output.{key}" for key in ("scores", "labels") if getattr(entry.output, key) is not None]
        if foreign:
            raise ConfigError(f"{where}: {foreign[0]} goes with protocol json only, not {entry.protocol}; remove it")
    elif form is not None and entry.input.encoding not in ("png", "jpeg"):
        raise ConfigError(f"{where}: input.form = {form!r} is for files; set input.encoding to png or jpeg")
    if entry.input.encoding in ("png", "jpeg") and entry.protocol not in REMOTE:
        raise ConfigError(f"{where}: {entry.protocol} takes numbers, not {entry.input.encoding} files; use fp32")
    if entry.input.encoding in ("fp32", "uint8") and entry.protocol == "huggingface":
        raise ConfigError(f"{where}: huggingface takes files, not {entry.input.encoding}; use png or jpeg")
    if entry.protocol == "huggingface" and entry.input.encoding is None:
        entry = replace(entry, input=replace(entry.input, encoding="png"))
    if entry.output.classification and (entry.output.name is None or entry.protocol != "inference_v2"):
        raise ConfigError(f"{where}: output.classification goes with inference_v2 and needs output.name; add it")
    background = entry.output.background
    if background is not None and background not in entry.classes:
        known = nearest(background, entry.classes) if len(entry.classes) <= 20 else f"it has {len(entry.classes)} names"
        raise ConfigError(f"{where}: output.background = {background!r} is not in its classes; {known}")
    if background is not None and len(entry.classes) < 3:
        raise ConfigError(f"{where}: without output.background it needs at least 2 classes; name them all")
    entry.input.check(entry.image[0], where)
    return entry


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


def entry_table(entry: ApiEntry) -> dict[str, Any]:
    """The keys of `entry` that say something: groups without those that are as always."""
    table = to_mapping(entry)
    for key in ("input", "output", "limits"):
        usual = to_mapping(getattr(ApiEntry, key))
        table[key] = {name: value for name, value in table[key].items() if usual.get(name) != value}
    return {key: value for key, value in table.items() if value not in ({}, [])}
