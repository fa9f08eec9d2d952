"""A first manifest from what servers say of themselves; what they do not say is named, for the user to fill in."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from urllib.parse import quote

from dfml.apis.manifest import ApiEntry
from dfml.apis.pixels import InputConfig
from dfml.apis.remote.host import Host, HttpRequest, HttpResponse, merged, origin_of
from dfml.apis.remote.patience import complaint
from dfml.apis.remote.reading import blotting, read_json, shown
from dfml.apis.remote.secrets import Redactor, Secret
from dfml.apis.scores import OutputConfig
from dfml.errors import ApiError, ConfigError, Garbled, Refused, Unreachable

Server = Literal["inference_v2", "tf_serving", "huggingface"]
IMAGE = (3, 32, 32)
"""what is written where a server does not tell its image size"""
SECONDS = 10.0
_TF_FLOATS = ("DT_FLOAT", "DT_HALF", "DT_DOUBLE")


@dataclass
class Found:
    """The APIs of some servers by name, and what their servers left open."""

    entries: dict[str, ApiEntry] = field(default_factory=dict)
    open: list[str] = field(default_factory=list)

    def add(self, model: str, entry: ApiEntry, left_open: Sequence[str]) -> None:
        name = base = re.sub(r"[^A-Za-z0-9._-]+", "-", model).strip("-._")[:90] or "api"
        number = 2
        while name.casefold() in {known.casefold() for known in self.entries}:
            name, number = f"{base}-{number}", number + 1
        self.entries[name] = entry
        self.open += [f"{name}: {what}" for what in left_open]


class Enquiry:
    """A server that is asked about itself. Nothing here is a query."""

    def __init__(self, url: str, headers: Mapping[str, Secret]) -> None:
        self.url, self.host = url.rstrip("/"), Host(origin_of(url))
        self._headers = {name: secret.reveal() for name, secret in headers.items()}
        self._redact = Redactor(self._headers.values())

    def look(self, path: str, method: str = "GET") -> Any:
        """The JSON at `path`, or None where the server has none there; `Unreachable` if it does not answer at all."""
        reply = self._ask(path, method)
        if reply is None or not 200 <= reply.status < 300:
            return None
        try:
            return read_json(reply.body)
        except Garbled:
            return None

    def answers(self, path: str) -> bool:
        """Whether all is well at `path`, whatever is said there."""
        reply = self._ask(path)
        return reply is not None and 200 <= reply.status < 300

    def _ask(self, path: str, method: str = "GET") -> HttpResponse | None:
        body = b"{}" if method == "POST" else b""
        headers = merged({"Content-Type": "application/json"} if body else {}, self._headers)
        try:
            reply = self.host.send(HttpRequest(method, self.url + path, headers, body), seconds=SECONDS)
        except Garbled:
            return None
        except ApiError as error:
            kind = Refused if isinstance(error, Refused) else Unreachable
            raise kind(self._redact(str(error))) from None
        if reply.status in (401, 403):
            with blotting(self._redact):
                told = complaint(reply.body)
            raise Refused(f"{self.url} does not let us in: it answered {reply.status}{told}; see --header")
        return reply


def discover(
    url: str, models: Sequence[str], found: Found, *, protocol: Server | None, headers: Mapping[str, Secret]
) -> None:
    """Add the models of the server at `url`, or those named, to what was found."""
    server = Enquiry(url, headers)
    try:
        told = server.look("/v2") if protocol in (None, "inference_v2") else None
        if protocol == "inference_v2" or isinstance(told, dict):
            _inference_v2(server, models, found, certain=protocol is not None)
        elif protocol == "huggingface":
            _huggingface(server, models, found)
        elif not models:
            raise ConfigError(
                f"{url} does not list its models in any way that is known here; name them with --model, and --protocol "
                "if you know it"
            )
        else:
            _tf_serving(server, models, found, certain=protocol is not None)
    finally:
        server.host.close()


def _inference_v2(server: Enquiry, models: Sequence[str], found: Found, *, certain: bool) -> None:
    if not models:
        models = _listed(server.look("/v2/repository/index", "POST")) or _listed(server.look("/v2/models"))
        if not models:
            raise ConfigError(
                f"{server.url} speaks inference_v2 but does not list its models, as many servers do not; name them "
                "with --model"
            )
    for model in models:
        path = f"/v2/models/{quote(model, safe='')}"
        told = server.look(path)
        if told is None and not certain and not server.answers(f"{path}/ready"):
            raise ConfigError(
                f"{server.url} speaks inference_v2 but says nothing of a model {model!r}; if that is its name, add "
                "--protocol inference_v2, and it is written down as you say"
            )
        entry, left_open = from_v2_metadata(server.url, model, told)
        if told is None:
            left_open.insert(0, f"the server says nothing of the model {shown(model, 60)}; see that this is its name")
        found.add(model, entry, left_open)


def _listed(told: Any) -> list[str]:
    """The names in a listing: Triton's and MLServer's index, or KServe's {"models": [...]}."""
    entries = _table(told).get("models") if isinstance(told, dict) else told
    names = [_table(entry).get("name", entry) for entry in entries] if isinstance(entries, list) else []
    return [name for name in names if isinstance(name, str) and name]


def from_v2_metadata(url: str, model: str, told: Any) -> tuple[ApiEntry, list[str]]:
    """The entry for a model whose V2 metadata is `told`, which may be incomplete or wrong."""
    left_open: list[str] = []
    hints = _table(_table(told).get("parameters"))
    inputs, outputs = _tensors(told, "inputs"), _tensors(told, "outputs")
    taken = next((tensor for tensor in inputs if len(_shape(tensor)) == 4), next(iter(inputs), {}))
    image, layout = _image(_shape(taken), left_open)
    kind = str(taken.get("datatype", "FP32"))
    offered = [str(name) for name in hints.get("encodings", ())] if isinstance(hints.get("encodings"), list) else [kind]
    chosen = next((name for name in offered if name in _ENCODINGS), "FP32")
    if not inputs:
        left_open.append("the server names no input; set input.name if it wants another than image")
    way = next((_shape(tensor)[-1] for tensor in outputs if len(_shape(tensor)) > 1), 0)
    several = len(outputs) > 1
    output = OutputConfig(name=_text(outputs[0].get("name")) if several else None)
    if several:
        names = ", ".join(str(_text(tensor.get("name"))) for tensor in outputs)
        left_open.append(f"the server has the outputs {shown(names, 80)}; see that output.name is the scores")
    entry = ApiEntry(
        protocol="inference_v2",
        url=url,
        model=model,
        classes=_classes(hints.get("classes"), way, left_open),
        image=image,
        input=InputConfig(name=_text(taken.get("name")), encoding=_ENCODINGS[chosen], layout=layout),
        output=_with_hints(output, hints),
    )
    fixed = _shape(taken)[:1]
    if fixed and fixed[0] > 0 and len(_shape(taken)) == 4:
        entry = replace(entry, limits=replace(entry.limits, images_per_request=fixed[0]))
    return entry, left_open


_ENCODINGS: dict[str, Literal["fp32", "uint8", "png"] | None] = {"FP32": None, "UINT8": "uint8", "BYTES": "png"}


def _with_hints(output: OutputConfig, hints: Mapping[str, Any]) -> OutputConfig:
    """What servers of dfml add: kind of answer, how many scores, decimals."""
    top_k, decimals = hints.get("top_k"), hints.get("decimals")
    if isinstance(decimals, int) and 0 <= decimals <= 12:
        output = replace(output, decimals=decimals)
    if hints.get("output") == "top-k" and isinstance(top_k, int) and top_k > 0:
        return replace(output, kind="top-k", top_k=top_k)
    return replace(output, kind="label") if hints.get("output") == "label" else output


def _tf_serving(server: Enquiry, models: Sequence[str], found: Found, *, certain: bool) -> None:
    for model in models:
        path = f"/v1/models/{quote(model, safe='')}"
        told = server.look(f"{path}/metadata")
        if told is None and not certain and server.look(path) is None:
            raise ConfigError(
                f"{server.url} answers neither at /v2 nor at {path}, so its protocol cannot be guessed; say it with "
                "--protocol (inference_v2, tf_serving, huggingface), or write the table by hand for a route of your own"
            )
        entry, left_open = from_tf_metadata(server.url, model, told)
        found.add(model, entry, left_open)


def from_tf_metadata(url: str, model: str, told: Any) -> tuple[ApiEntry, list[str]]:
    """The entry for a model whose TF Serving metadata is `told`; KServe's V1 has none."""
    left_open: list[str] = []
    signatures = _table(_table(_table(_table(told).get("metadata")).get("signature_def")).get("signature_def"))
    signature = _table(signatures.get("serving_default") or next(iter(signatures.values()), None))
    inputs, outputs = _table(signature.get("inputs")), _table(signature.get("outputs"))
    shapes = {name: _tf_shape(tensor) for name, tensor in inputs.items()}
    name = next((name for name, shape in shapes.items() if len(shape) == 4), next(iter(shapes), None))
    kind = _table(inputs.get(name or "")).get("dtype")
    image, layout = _image(shapes.get(name or "", ()), left_open)
    way = next((shape[-1] for tensor in outputs.values() if len(shape := _tf_shape(tensor)) > 1), 0)
    files = kind == "DT_STRING"
    if kind is not None and not files and kind not in _TF_FLOATS and kind != "DT_UINT8":
        left_open.append(f"the input has the type {shown(kind, 40)}; see that input.encoding fits it")
    several = len(outputs) > 1
    entry = ApiEntry(
        protocol="tf_serving",
        url=url,
        model=model,
        classes=_classes(None, way, left_open),
        image=image,
        input=InputConfig(
            encoding="png" if files else "uint8" if kind == "DT_UINT8" else None,
            layout="nchw" if files else layout,
            name=name if len(inputs) > 1 else None,
        ),
        output=OutputConfig(name=next(iter(outputs)) if several else None),
    )
    return entry, left_open


def _huggingface(server: Enquiry, models: Sequence[str], found: Found) -> None:
    for model in models or [""]:
        told = _table(server.look(f"/models/{quote(model)}" if model else "/"))
        left_open = ["the protocol does not tell the image size; set image to what the model was trained with"]
        labels = told.get("labels") or _table(told.get("config")).get("id2label") or told.get("id2label")
        if isinstance(labels, dict):
            labels = list(labels.values())
        entry = ApiEntry(
            protocol="huggingface",
            url=server.url,
            model=model or None,
            classes=_classes(labels, 0, left_open),
            image=IMAGE,
            input=InputConfig(encoding="png"),
        )
        found.add(model or "api", entry, left_open)


def _classes(told: Any, way: int, left_open: list[str]) -> tuple[str, ...]:
    """The names a server tells, or numbers in their place."""
    if isinstance(told, list) and len(told) > 1 and all(isinstance(name, str) for name in told):
        return tuple(told)
    way = way if 1 < way <= 10_000 else 0
    left_open.append(
        f"the server tells no class names, only that there are {way}; put them into classes"
        if way
        else "the server tells no classes; put their names into classes, in the order of the scores"
    )
    return tuple(f"class {number}" for number in range(way or 2))


def _image(shape: tuple[int, ...], left_open: list[str]) -> tuple[tuple[int, int, int], Literal["nchw", "nhwc"]]:
    """(channels, height, width) and layout of a 4-D input; channels are the 1 or 3 among the dimensions."""
    if len(shape) == 4:
        if shape[1] in (1, 3) and shape[2] > 0 and shape[3] > 0:
            return (shape[1], shape[2], shape[3]), "nchw"
        if shape[3] in (1, 3) and shape[1] > 0 and shape[2] > 0:
            return (shape[3], shape[1], shape[2]), "nhwc"
    left_open.append("the server tells no image size; set image to channels, height and width, and input.layout")
    return IMAGE, "nhwc" if len(shape) == 4 and shape[3] in (1, 3) else "nchw"


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _tensors(told: Any, key: str) -> list[dict[str, Any]]:
    listed = _table(told).get(key)
    return [tensor for tensor in listed if isinstance(tensor, dict)] if isinstance(listed, list) else []


def _shape(tensor: Mapping[str, Any]) -> tuple[int, ...]:
    sides = tensor.get("shape")
    if not isinstance(sides, list):
        return ()
    return tuple(side if isinstance(side, int) and not isinstance(side, bool) else -1 for side in sides)


def _tf_shape(tensor: Any) -> tuple[int, ...]:
    sides = _table(_table(tensor).get("tensor_shape")).get("dim")
    numbers = [str(_table(side).get("size", "-1")) for side in sides] if isinstance(sides, list) else []
    return tuple(int(number) if re.fullmatch(r"\d{1,9}", number) else -1 for number in numbers)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
