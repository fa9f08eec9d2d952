"""Routes that people write with LitServe, BentoML or FastAPI: JSON in, JSON out, and the manifest says where."""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dfml.apis.pixels import Images, InputConfig, arranged, files
from dfml.apis.remote.host import HttpRequest, HttpResponse
from dfml.apis.remote.reading import numbers, pairs, read_json, shown
from dfml.apis.remote.tf_serving import nested
from dfml.apis.scores import OutputConfig, Pairs, Scores
from dfml.errors import Garbled

_EACH = "*"


@dataclass(frozen=True)
class JsonRoute:
    """`POST url` with one image, or a list of them, at `input.field`; answers at `output.scores`, `output.labels`."""

    url: str
    model: str | None
    version: str | None
    input: InputConfig
    output: OutputConfig

    @property
    def most(self) -> int | None:
        return None if self.input.many else 1

    @property
    def forms(self) -> Sequence[str]:
        return (self.input.form or "base64",)

    def request(self, images: Images, form: str) -> HttpRequest:
        """The request for images (n, c, h, w) in [0, 1]."""
        items = self._items(images, form)
        text = f"[{', '.join(items)}]" if self.input.many else items[0]
        for key in reversed(self.input.field.split(".")):
            text = f"{{{json.dumps(key)}: {text}}}"
        return HttpRequest("POST", self.url, {"Content-Type": "application/json"}, text.encode())

    def scores(self, reply: HttpResponse, count: int) -> Scores:
        """What the reply says of `count` images."""
        told = read_json(reply.body)
        labels = None if self.output.labels is None else self._found(told, self.output.labels, count)
        if labels is not None and self.output.scores is None:
            return [[(_label(_alone(label)), None)] for label in labels]
        answers = self._found(told, self.output.scores or "", count)
        if labels is not None:
            return [_matched(names, scores) for names, scores in zip(labels, answers, strict=True)]
        return _read(answers)

    def _items(self, images: Images, form: str) -> list[str]:
        """Each image as JSON."""
        if self.input.encoding not in ("png", "jpeg"):
            return [nested(one) for one in arranged(images, self.input)]
        start = f"data:image/{self.input.encoding};base64," if form == "data-url" else ""
        return [json.dumps(start + base64.b64encode(file).decode()) for file in files(images, self.input)]

    def _found(self, told: Any, path: str, count: int) -> list[Any]:
        """What stands at `path`, for each of the images."""
        steps = [step for step in path.split(".") if step]
        before = steps[: steps.index(_EACH)] if _EACH in steps else steps
        after = steps[len(before) + 1 :]
        value = _walk(told, before, path)
        if not self.input.many and _EACH not in steps:
            return [value]
        if not isinstance(value, list) or len(value) != count:
            raise Garbled(f"expected a list of {count} answers at {path or 'the top'!r}, got {shown(value)}")
        return [_walk(one, after, path) for one in value]


def _walk(value: Any, steps: Sequence[str], path: str) -> Any:
    for step in steps:
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.isascii() and step.isdigit() and len(step) < 9 and int(step) < len(value):
            value = value[int(step)]
        else:
            raise Garbled(f"its answer has nothing at {path!r}, but is {shown(value)}; correct output.scores or labels")
    return value


def _read(answers: list[Any]) -> Scores:
    """Lists of scores as a table; else classes by name, however they are named."""
    if all(isinstance(answer, list) and not (answer and isinstance(answer[0], dict | str)) for answer in answers):
        table = numbers(answers, "its answer")
        return table.reshape(len(answers), -1)
    return [_named(answer) for answer in answers]


def _named(answer: Any) -> Pairs:
    alone = _alone(answer)
    return [(_label(alone), None)] if isinstance(alone, str | int) else pairs(answer, "its answer")


def _matched(names: Any, scores: Any) -> Pairs:
    """Class names and their scores, side by side."""
    names = names if isinstance(names, list) else [names]
    table = numbers(scores if isinstance(scores, list) else [scores], "its scores")
    if table.shape != (len(names),):
        raise Garbled(f"its answer has {len(names)} labels, but scores of the shape {list(table.shape)}")
    return [(_label(name), float(score)) for name, score in zip(names, table, strict=True)]


def _alone(value: Any) -> Any:
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _label(value: Any) -> str | int:
    """A class by its name or its column."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise Garbled(f"a label should be a text or a whole number, but is {shown(value, 80)}")
    return value
