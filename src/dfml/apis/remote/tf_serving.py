"""TensorFlow Serving's REST protocol, which KServe's V1 shares: JSON in row or column form, files as base64."""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dfml.apis.pixels import Images, InputConfig, arranged, digits, files
from dfml.apis.remote.host import HttpRequest, HttpResponse
from dfml.apis.remote.reading import numbers, pairs, read_json, shown
from dfml.apis.scores import OutputConfig, Scores
from dfml.errors import Garbled


@dataclass(frozen=True)
class TfServing:
    """`POST url/v1/models/M[/versions/V]:predict`."""

    url: str
    model: str
    version: str | None
    input: InputConfig
    output: OutputConfig
    most: int | None = None

    @property
    def forms(self) -> Sequence[str]:
        return (self.input.form or "row",)

    def request(self, images: Images, form: str) -> HttpRequest:
        """The request for images (n, c, h, w) in [0, 1]."""
        if self.input.encoding in ("png", "jpeg"):
            encoded = [{"b64": base64.b64encode(file).decode()} for file in files(images, self.input)]
            items = [json.dumps(file) for file in encoded]
        else:
            items = [nested(one) for one in arranged(images, self.input)]
        name = None if self.input.name is None else json.dumps(self.input.name)
        if form == "row":
            rows = items if name is None else [f"{{{name}: {item}}}" for item in items]
            text = f'{{"instances": [{", ".join(rows)}]}}'
        else:
            column = f"[{', '.join(items)}]"
            text = f'{{"inputs": {column if name is None else f"{{{name}: {column}}}"}}}'
        version = f"/versions/{self.version}" if self.version else ""
        url = f"{self.url}/v1/models/{self.model}{version}:predict"
        return HttpRequest("POST", url, {"Content-Type": "application/json"}, text.encode())

    def scores(self, reply: HttpResponse, count: int) -> Scores:
        """What the reply says of `count` images, in whichever form it comes."""
        told = read_json(reply.body)
        if not isinstance(told, dict) or not ("predictions" in told or "outputs" in told):
            raise Garbled(f"its answer should have 'predictions' or 'outputs', but is {shown(told)}")
        if "predictions" in told:
            rows = told["predictions"]
            if not isinstance(rows, list):
                raise Garbled(f"its predictions should be a list, but are {shown(rows)}")
            if rows and all(self._is_named(row) for row in rows):
                return [pairs(row, "a prediction") for row in rows]
            if rows and isinstance(rows[0], dict):
                rows = [self._picked(row) for row in rows]
        else:
            rows = told["outputs"]
            rows = self._picked(rows) if isinstance(rows, dict) else rows
        return _table(rows, count)

    def _is_named(self, row: Any) -> bool:
        """Whether a row is {label: score, ...}, as TorchServe answers, and not an object of outputs."""
        if not isinstance(row, dict) or not row or self.output.name is not None:
            return False
        return all(isinstance(score, float) or (type(score) is int and len(row) > 1) for score in row.values())

    def _picked(self, outputs: Any) -> Any:
        """The wanted one of several named outputs."""
        if not isinstance(outputs, dict):
            raise Garbled(f"its answer mixes objects with {shown(outputs, 80)}")
        if self.output.name in outputs:
            return outputs[self.output.name]
        if self.output.name is None and len(outputs) == 1:
            return next(iter(outputs.values()))
        names = shown(list(outputs))
        raise Garbled(
            f"its answer has the outputs {names}, not {self.output.name!r}"
            if self.output.name
            else f"set output.name to one of {names}"
        )


def _table(rows: Any, count: int) -> Scores:
    """Scores (n, k); or classes alone, where every image got one name or one whole number."""
    if not isinstance(rows, list) or len(rows) != count:
        raise Garbled(f"expected {count} answers, got {shown(rows)}")
    single = [row[0] if isinstance(row, list) and len(row) == 1 else row for row in rows]
    if all(isinstance(row, str) for row in single):
        return [[(row, None)] for row in single]
    if all(isinstance(row, int) and not isinstance(row, bool) for row in single):
        return [[(row, None)] for row in single]
    table = numbers(rows, "its answer")
    return table.reshape(count, -1) if table.ndim > 1 else table[:, None]


def nested(pixels: Any) -> str:
    """One image as nested JSON lists."""
    words = digits(pixels)[1:-1].split(",")
    for width in pixels.shape[:0:-1]:
        words = [f"[{','.join(words[at : at + width])}]" for at in range(0, len(words), width)]
    return f"[{','.join(words)}]"
