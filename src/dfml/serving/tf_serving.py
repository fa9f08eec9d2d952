"""TensorFlow Serving's REST interface: row and column form, images as numbers or as base64 files."""

import re
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dfml.apis.blackbox import ApiSpec
from dfml.serving.hosted import Hosted, to_lists
from dfml.serving.messages import HttpError, PredictionRequest, Request, Response, json_response
from dfml.serving.pictures import decode_all, from_base64

INPUT, OUTPUT = "image", "probabilities"
_MODEL = re.compile(r"/v1/models/([^/:]+)(?:/versions/([^/:]+))?(/metadata|:predict)?")


def route(zoo: Hosted, request: Request) -> Response | PredictionRequest:
    """What `/v1/models/...` asks for."""
    spec, what = zoo.asked_for(request.path, _MODEL)
    match (request.method, what):
        case ("GET", None):
            fine = {"error_code": "OK", "error_message": ""}
            return json_response({"model_version_status": [{"version": "1", "state": "AVAILABLE", "status": fine}]})
        case ("GET", "/metadata"):
            return json_response(metadata(spec))
        case ("POST", ":predict"):
            return PredictionRequest(spec.name, lambda: predict(zoo, spec.name, request))
    raise HttpError(405, f"{request.method} is not the way to ask for {request.path}")


def metadata(spec: ApiSpec) -> dict[str, Any]:
    """The signature: channels last, as TensorFlow's own models have them."""
    channels, height, width = spec.image
    signature = {
        "inputs": {INPUT: _tensor(INPUT, [-1, height, width, channels])},
        "outputs": {OUTPUT: _tensor(OUTPUT, [-1, spec.way])},
        "method_name": "tensorflow/serving/predict",
    }
    return {
        "model_spec": {"name": spec.name, "signature_name": "", "version": "1"},
        "metadata": {"signature_def": {"signature_def": {"serving_default": signature}}},
    }


def _tensor(name: str, shape: list[int]) -> dict[str, Any]:
    dims = [{"size": str(size), "name": ""} for size in shape]
    return {"dtype": "DT_FLOAT", "tensor_shape": {"dim": dims, "unknown_rank": False}, "name": f"{name}:0"}


def predict(zoo: Hosted, name: str, request: Request) -> Response:
    """`instances` are answered by `predictions`, `inputs` by `outputs`."""
    spec, message = zoo.spec(name), request.json()
    if ("instances" in message) == ("inputs" in message):
        raise HttpError(400, "expected either `instances` (row form) or `inputs` (column form)")
    row_form = "instances" in message
    given = message["instances"] if row_form else _only_value(message["inputs"])
    if not isinstance(given, list) or not given:
        raise HttpError(400, "expected a list of images")
    scores = zoo.ask(name, images_of([_only_value(item) for item in given], spec))
    return json_response({"predictions" if row_form else "outputs": to_lists(spec, scores)}, images=len(scores))


def images_of(given: list[Any], spec: ApiSpec) -> Tensor:
    """The images (n, c, h, w): encoded files, or numbers in [0, 1] with the channels last or first."""
    if isinstance(given[0], dict):
        if not all(isinstance(item, dict) and set(item) == {"b64"} for item in given):
            raise HttpError(400, "expected every image as {'b64': ...}")
        return decode_all((from_base64(item["b64"]) for item in given), spec)
    try:
        pixels = torch.from_numpy(np.array(given, np.float64).astype(np.float32))
    except (TypeError, ValueError, OverflowError):
        raise HttpError(400, "expected images as nested lists of numbers, all of one shape") from None
    channels, height, width = spec.image
    if pixels.shape[1:] == (height, width, channels):
        return pixels.permute(0, 3, 1, 2).contiguous()
    if pixels.shape[1:] == spec.image:
        return pixels
    raise HttpError(400, f"expected images of shape {[height, width, channels]}, got {list(pixels.shape[1:])}")


def _only_value(item: Any) -> Any:
    """An input may be named or not; there is only one."""
    if isinstance(item, dict) and set(item) != {"b64"}:
        if set(item) != {INPUT}:
            raise HttpError(400, f"the only input is {INPUT!r}, got {', '.join(map(repr, item)) or 'none'}")
        return item[INPUT]
    return item
