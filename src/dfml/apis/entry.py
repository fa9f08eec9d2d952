"""One API's table in a manifest: what its keys are, and which of them go together."""

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from dfml.apis.blackbox import ApiSpec, Terms
from dfml.apis.pixels import InputConfig
from dfml.apis.remote.limits import Limits
from dfml.apis.scores import OutputConfig
from dfml.config import to_mapping
from dfml.errors import ConfigError, nearest
from dfml.nets import Arch

ProtocolName = Literal["onnx", "tflite", "torch", "python", "inference_v2", "tf_serving", "huggingface", "json"]
REMOTE = ("inference_v2", "tf_serving", "huggingface", "json")
_NEEDED = {"tflite": "file", "torch": "file", "python": "function", "inference_v2": "model", "tf_serving": "model"}
_FORMS = {
    "inference_v2": ("binary", "json"),
    "tf_serving": ("row", "column"),
    "huggingface": ("raw", "json"),
    "json": ("base64", "data-url"),
}


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


def checked(entry: ApiEntry, where: str) -> ApiEntry:
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


def entry_table(entry: ApiEntry) -> dict[str, Any]:
    """The keys of `entry` that say something: groups without those that are as always."""
    table = to_mapping(entry)
    for key in ("input", "output", "limits"):
        usual = to_mapping(getattr(ApiEntry, key))
        table[key] = {name: value for name, value in table[key].items() if usual.get(name) != value}
    return {key: value for key, value in table.items() if value not in ({}, [])}
