"""The Open Inference Protocol (V2) with its binary tensor extension, as Triton, MLServer and KServe speak it."""

import json
import math
import re
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

import dfml
from dfml.apis.blackbox import ApiSpec
from dfml.serving.hosted import Hosted, to_lists
from dfml.serving.messages import HttpError, PredictionRequest, Request, Response, json_response, parse_object
from dfml.serving.pictures import decode_all, from_base64, from_levels

INPUT, OUTPUT = "image", "probabilities"
ENCODINGS = ("FP32", "UINT8", "BYTES")
HEADER = "Inference-Header-Content-Length"
_MODEL = re.compile(r"/v2/models/([^/]+)(?:/versions/([^/]+))?(/ready|/infer)?")


def route(zoo: Hosted, request: Request) -> Response | PredictionRequest:
    """What `/v2...` asks for."""
    match (request.method, request.path):
        case ("GET", "/v2" | "/v2/"):
            extensions = ["binary_tensor_data", "model_repository"]
            return json_response({"name": "dfml", "version": dfml.__version__, "extensions": extensions})
        case ("GET", "/v2/health/live"):
            return json_response({"live": True})
        case ("GET", "/v2/health/ready"):
            return json_response({"ready": True})
        case ("POST", "/v2/repository/index"):
            return json_response([{"name": name, "version": "1", "state": "READY", "reason": ""} for name in zoo.apis])
    spec, what = zoo.asked_for(request.path, _MODEL)
    match (request.method, what):
        case ("GET", None):
            return json_response(metadata(spec))
        case ("GET", "/ready"):
            return json_response({"name": spec.name, "ready": True})
        case ("POST", "/infer"):
            return PredictionRequest(spec.name, lambda: infer(zoo, spec.name, request))
    raise HttpError(405, f"{request.method} is not the way to ask for {request.path}")


def metadata(spec: ApiSpec) -> dict[str, Any]:
    """Name, tensors, and in the free table `parameters` what the protocol has no word for."""
    told = {"output": spec.output, "top_k": spec.top_k, "decimals": spec.decimals}
    encodings = ENCODINGS if spec.levels is None else ENCODINGS[1:]  # floats would say more than arrives
    return {
        "name": spec.name,
        "versions": ["1"],
        "platform": "dfml",
        "inputs": [{"name": INPUT, "datatype": "FP32", "shape": [-1, *spec.image]}],
        "outputs": [{"name": OUTPUT, "datatype": "FP32", "shape": [-1, spec.way]}],
        "parameters": {
            "classes": list(spec.classes),
            "encodings": list(encodings),
            **{name: value for name, value in told.items() if value is not None},
        },
    }


def infer(zoo: Hosted, name: str, request: Request) -> Response:
    """The answer to one request, in JSON or binary as the client wants it."""
    spec = zoo.spec(name)
    message, rest = split(request)
    tensors = message.get("inputs")
    if not isinstance(tensors, list) or len(tensors) != 1 or not isinstance(tensors[0], dict):
        raise HttpError(400, f"expected one input, {INPUT!r}")
    if tensors[0].get("name") != INPUT:
        raise HttpError(400, f"expected the input {INPUT!r}, got {tensors[0].get('name')!r}")
    scores = zoo.ask(name, images_of(tensors[0], rest, spec))
    output: dict[str, Any] = {"name": OUTPUT, "datatype": "FP32", "shape": list(scores.shape)}
    answer: dict[str, Any] = {"model_name": name, "model_version": "1"}
    if "id" in message:
        answer["id"] = message["id"]
    if not wants_binary(message):
        data = [score for row in to_lists(spec, scores) for score in row]
        return json_response(answer | {"outputs": [output | {"data": data}]}, images=len(scores))
    raw = scores.contiguous().numpy().astype("<f4", copy=False).tobytes()
    head = json.dumps(answer | {"outputs": [output | {"parameters": {"binary_data_size": len(raw)}}]}).encode()
    headers = {"Content-Type": "application/octet-stream", HEADER: str(len(head))}
    return Response(200, head + raw, headers, len(scores))


def split(request: Request) -> tuple[dict[str, Any], bytes | None]:
    """The JSON part and, if the header announces one, the binary part."""
    told = request.headers.get(HEADER)
    if told is None:
        return request.json(), None
    if not told.isascii() or not told.isdigit() or int(told) > len(request.body):
        raise HttpError(400, f"{HEADER} must be the length of the JSON part, got {told!r}")
    return parse_object(request.body[: int(told)]), request.body[int(told) :]


def wants_binary(message: dict[str, Any]) -> bool:
    """Whether the outputs shall be binary: asked for each by itself, or for all at once."""
    outputs = message.get("outputs")
    for output in outputs if isinstance(outputs, list) else ():
        if not isinstance(output, dict) or output.get("name") != OUTPUT:
            raise HttpError(400, f"the only output is {OUTPUT!r}")
        wish = _parameters(output).get("binary_data")
        if wish is not None:
            return bool(wish)
    return bool(_parameters(message).get("binary_data_output"))


def images_of(tensor: dict[str, Any], rest: bytes | None, spec: ApiSpec) -> Tensor:
    """The images (n, c, h, w) of one input tensor, given as `data` or in the binary part."""
    shape, datatype = tensor.get("shape"), tensor.get("datatype")
    if not isinstance(shape, list) or not shape or not all(type(size) is int and size >= 0 for size in shape):
        raise HttpError(400, f"a shape is a list of sizes, got {shape!r}")
    size = _parameters(tensor).get("binary_data_size")
    if size is not None and (rest is None or type(size) is not int or size != len(rest)):
        raise HttpError(400, f"binary_data_size is {size!r}, but {len(rest or b'')} bytes follow the JSON part")
    if size is None and not isinstance(tensor.get("data"), list):
        raise HttpError(400, f"the input {INPUT!r} has neither a list `data` nor a binary part")
    if datatype == "BYTES":
        files = list(_elements(rest or b"")) if size is not None else [from_base64(text) for text in tensor["data"]]
        if len(files) != math.prod(shape):
            raise HttpError(400, f"the shape {shape} announces {math.prod(shape)} files, {len(files)} came")
        return decode_all(files, spec)
    if datatype not in ENCODINGS:
        raise HttpError(400, f"the datatype is one of {', '.join(ENCODINGS)}, not {datatype!r}")
    if tuple(shape[1:]) != spec.image:
        raise HttpError(400, f"expected the shape {[-1, *spec.image]}, got {shape}")
    kind = np.dtype("<f4" if datatype == "FP32" else "u1")
    try:
        values = np.frombuffer(rest or b"", kind) if size is not None else np.array(tensor["data"], np.float64)
        values = values.reshape(shape)
    except (TypeError, ValueError, OverflowError):
        raise HttpError(400, f"the data do not fill the shape {shape} of {datatype}") from None
    if datatype == "UINT8":
        if size is None and not bool(((values >= 0) & (values <= 255) & (values % 1 == 0)).all()):
            raise HttpError(400, "UINT8 values are whole numbers from 0 to 255")
        return from_levels(values.astype(np.uint8, copy=False))
    return torch.from_numpy(values.astype(np.float32))


def _elements(raw: bytes) -> Iterator[bytes]:
    """The elements of a binary BYTES tensor: each four bytes of length, little-endian, then itself."""
    at = 0
    while at < len(raw):
        if at + 4 > len(raw):
            raise HttpError(400, "a BYTES tensor ends within a length")
        (length,) = struct.unpack_from("<I", raw, at)
        at += 4 + length
        if at > len(raw):
            raise HttpError(400, "a BYTES tensor ends within an element")
        yield raw[at - length : at]


def _parameters(table: dict[str, Any]) -> dict[str, Any]:
    found = table.get("parameters")
    return found if isinstance(found, dict) else {}
