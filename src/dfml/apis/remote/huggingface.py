"""Hugging Face image classification: one encoded image a request, labels with scores back, often only the best few."""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dfml.apis.pixels import Images, InputConfig, files
from dfml.apis.remote.host import HttpRequest, HttpResponse
from dfml.apis.remote.reading import pairs, read_json
from dfml.apis.scores import OutputConfig, Scores


@dataclass(frozen=True)
class HuggingFace:
    """`POST url/models/M`, or `POST url` where one server is one model."""

    url: str
    model: str | None
    version: str | None
    input: InputConfig
    output: OutputConfig
    most: int | None = 1

    @property
    def forms(self) -> Sequence[str]:
        return (self.input.form or ("raw" if self.output.top_k is None else "json"),)

    def request(self, images: Images, form: str) -> HttpRequest:
        """The request for one image (1, c, h, w) in [0, 1]."""
        (file,) = files(images, self.input)
        url = self.url if self.model is None else f"{self.url}/models/{self.model}"
        if form == "raw":
            kind = "image/jpeg" if self.input.encoding == "jpeg" else "image/png"
            return HttpRequest("POST", url, {"Content-Type": kind}, file)
        told: dict[str, Any] = {"inputs": base64.b64encode(file).decode()}
        if self.output.top_k is not None:
            told["parameters"] = {"top_k": self.output.top_k}
        return HttpRequest("POST", url, {"Content-Type": "application/json"}, json.dumps(told).encode())

    def scores(self, reply: HttpResponse, count: int) -> Scores:
        """Labels and scores; some servers wrap the list of one image into another list, TorchServe sends an object."""
        told = read_json(reply.body)
        if isinstance(told, list) and len(told) == 1 and isinstance(told[0], list):
            told = told[0]
        return [pairs(told, "its answer")]
