"""The Open Inference Protocol (V2) of Triton, MLServer, KServe, OpenVINO and TorchServe, as JSON or with raw tensors.

The binary extension puts little-endian tensors behind a JSON header whose length an HTTP header gives.
"""

import base64
import json
import math
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dfml.apis.pixels import Images, InputConfig, arranged, digits, files
from dfml.apis.remote.host import HttpRequest, HttpResponse
from dfml.apis.remote.reading import member, number, numbers, read_json, shown
from dfml.apis.scores import OutputConfig, Scores
from dfml.errors import Garbled

HEADER_LENGTH = "Inference-Header-Content-Length"
TYPES = {
    "FP16": "<f2",
    "FP32": "<f4",
    "FP64": "<f8",
    "INT8": "<i1",
    "INT16": "<i2",
    "INT32": "<i4",
    "INT64": "<i8",
    "UINT8": "<u1",
    "UINT16": "<u2",
    "UINT32": "<u4",
    "UINT64": "<u8",
}
_CLASSIFIED = re.compile(r"([-+0-9.eE]+):(\d{1,9})(?::.*)?", re.DOTALL)


@dataclass(frozen=True)
class InferenceV2:
    """`POST url/v2/models/M[/versions/V]/infer`."""

    url: str
    model: str
    version: str | None
    input: InputConfig
    output: OutputConfig
    most: int | None = None

    @property
    def forms(self) -> Sequence[str]:
        return ("binary", "json") if self.input.form is None else (self.input.form,)

    def request(self, images: Images, form: str) -> HttpRequest:
        """The request for images (n, c, h, w) in [0, 1]."""
        described, raw = self._tensor(images, binary=form == "binary")
        told: dict[str, Any] = {"inputs": [described]}
        if self.output.classification:
            wanted = {"name": self.output.name, "parameters": {"classification": self.output.top_k or 1}}
            told["outputs"] = [wanted]
        elif self.output.name is not None:
            told["outputs"] = [{"name": self.output.name}]
        version = f"/versions/{self.version}" if self.version else ""
        url = f"{self.url}/v2/models/{self.model}{version}/infer"
        if form != "binary":
            text = json.dumps(told)
            if isinstance(raw, str):  # numbers, already written by `digits`
                text = text.replace('"data": null', f'"data": {raw}', 1)
            return HttpRequest("POST", url, {"Content-Type": "application/json"}, text.encode())
        told["parameters"] = {"binary_data_output": True}
        header = json.dumps(told).encode()
        headers = {"Content-Type": "application/octet-stream", HEADER_LENGTH: str(len(header))}
        assert raw is not None
        assert not isinstance(raw, str)
        return HttpRequest("POST", url, headers, b"".join((header, raw)))

    def scores(self, reply: HttpResponse, count: int) -> Scores:
        """What the reply's output says of `count` images."""
        outputs, tail = _outputs(reply)
        kind, shape, values = _decoded(_chosen(outputs, self.output.name), tail)
        if not shape or shape[0] != count:
            if count == 1:
                shape = (1, *shape)
            elif len(shape) == 1 and shape[0] % count == 0:
                shape = (count, shape[0] // count)  # TorchServe puts the rows of a batch end to end
            else:
                raise Garbled(f"its answer has the shape {list(shape)}, expected {count} rows")
        width = math.prod(shape[1:])
        if kind == "BYTES":
            texts = [values[row * width : (row + 1) * width] for row in range(count)]
            return [[_classified(text) for text in row] for row in texts]
        table = np.asarray(values, np.float64).reshape(count, width)
        if kind.startswith(("INT", "UINT")) and width == 1:
            return [[(int(winner), None)] for winner in table[:, 0]]
        return table

    def _tensor(self, images: Images, *, binary: bool) -> tuple[dict[str, Any], bytes | memoryview | str | None]:
        """The input as the header describes it, and its content where that stands apart."""
        name = self.input.name or "image"
        if self.input.encoding in ("png", "jpeg"):
            encoded = files(images, self.input)
            told: dict[str, Any] = {"name": name, "shape": [len(encoded)], "datatype": "BYTES"}
            if not binary:
                texts = [base64.b64encode(file).decode() for file in encoded]
                return told | {"parameters": {"content_type": "base64"}, "data": texts}, None
            content = b"".join(struct.pack("<I", len(file)) + file for file in encoded)
            return told | {"parameters": {"binary_data_size": len(content)}}, content
        pixels = arranged(images, self.input)
        kind = "UINT8" if pixels.dtype == np.uint8 else "FP32"
        told = {"name": name, "shape": list(pixels.shape), "datatype": kind}
        if not binary:
            return told | {"data": None}, digits(pixels)
        little = pixels.astype(TYPES[kind], copy=False)  # no bytes yet: they are copied once, below the header
        return told | {"parameters": {"binary_data_size": little.nbytes}}, little.data


def _outputs(reply: HttpResponse) -> tuple[list[Any], bytes]:
    """The described outputs, and the raw tensors behind them."""
    length = reply.headers.get(HEADER_LENGTH.lower(), "").strip()
    header, tail = reply.body, b""
    if length:
        if not (length.isascii() and length.isdigit()) or len(length) > 9 or int(length) > len(reply.body):
            raise Garbled(f"its answer is shorter than the header {HEADER_LENGTH}: {shown(length, 20)} says")
        header, tail = reply.body[: int(length)], reply.body[int(length) :]
    return member(read_json(header), "outputs", list, "its answer"), tail


def _chosen(outputs: list[Any], name: str | None) -> tuple[list[Any], int]:
    """All outputs, and the place of the one that is wanted."""
    names = [output.get("name") if isinstance(output, dict) else None for output in outputs]
    if name is not None and name in names:
        return outputs, names.index(name)
    if name is None and len(outputs) == 1:
        return outputs, 0
    told = shown(names)
    raise Garbled(f"its answer has the outputs {told}, not {name!r}" if name else f"set output.name to one of {told}")


def _decoded(chosen: tuple[list[Any], int], tail: bytes) -> tuple[str, tuple[int, ...], Any]:
    """Datatype, shape and the flat values of the chosen output."""
    outputs, place = chosen
    start = 0
    for output in outputs[:place]:
        start += _binary_size(output) or 0
    output = outputs[place]
    kind = member(output, "datatype", str, "an output")
    shape = tuple(member(output, "shape", list, "an output"))
    if not all(isinstance(side, int) and not isinstance(side, bool) and 0 <= side < 2**31 for side in shape):
        raise Garbled(f"an output has the shape {shown(list(shape), 80)}")
    size = _binary_size(output)
    if size is not None:
        if start + size > len(tail):
            raise Garbled("its answer is cut off: raw tensors are missing")
        values = _raw(kind, tail[start : start + size])
    elif kind == "BYTES":
        values = _texts(member(output, "data", list, "an output"))
    elif kind in TYPES:
        values = numbers(member(output, "data", list, "an output"), "an output").ravel()
    else:
        raise Garbled(f"an output has the datatype {shown(kind, 40)}, which is no score")
    total = 1
    for side in shape:
        total *= side
    if len(values) != total:
        raise Garbled(f"an output has the shape {list(shape)}, but {len(values)} values")
    return kind, shape, values


def _binary_size(output: Any) -> int | None:
    parameters = output.get("parameters") if isinstance(output, dict) else None
    size = parameters.get("binary_data_size") if isinstance(parameters, dict) else None
    if size is None:
        return None
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise Garbled(f"an output has the binary_data_size {shown(size, 40)}")
    return size


def _raw(kind: str, data: bytes) -> Any:
    if kind == "BYTES":
        texts, at = list[str](), 0
        while at < len(data):
            (length,) = struct.unpack_from("<I", data, at) if at + 4 <= len(data) else (len(data),)
            if at + 4 + length > len(data):
                raise Garbled("its answer is cut off in a text")
            texts.append(data[at + 4 : at + 4 + length].decode("utf-8", "replace"))
            at += 4 + length
        return texts
    if kind not in TYPES:
        raise Garbled(f"an output has the datatype {shown(kind, 40)}, which is no score")
    dtype = np.dtype(TYPES[kind])
    if len(data) % dtype.itemsize:
        raise Garbled(f"a raw tensor of {kind} has {len(data)} bytes")
    return np.frombuffer(data, dtype)


def _texts(data: list[Any]) -> list[str]:
    """Texts, nested or not, in their order."""
    texts, waiting = list[str](), data[::-1]
    while waiting:
        item = waiting.pop()
        if isinstance(item, list):
            waiting += item[::-1]
        elif isinstance(item, str):
            texts.append(item)
        else:
            raise Garbled(f"an output of texts holds {shown(item, 40)}")
    return texts


def _classified(text: str) -> tuple[str | int, float | None]:
    """A class from "score:index[:label]" of the classification extension, or a label that stands alone."""
    found = _CLASSIFIED.fullmatch(text)
    if found is None:
        return text, None
    try:
        return int(found[2]), number(float(found[1]), "a score")
    except ValueError:
        return text, None
