"""An ONNX file behind the seam: the default way in which local APIs answer, because it is the fastest."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from dfml.apis.blackbox import ApiSpec, ImageArray, ask
from dfml.apis.local.threads import side_by_side
from dfml.apis.scores import OutputConfig, completed
from dfml.errors import ApiError, ConfigError

Arrange = Callable[[ImageArray], ImageArray]
"""images (n, c, h, w) in [0, 1] -> what the file takes: another layout, order or units"""
BATCH_NUMBERS = 32 * 3 * 84 * 84
"""Numbers of a batch's images at most: of 224 x 224 four are as fast as 32, and take half a gigabyte less."""
_FLOATS = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64}
_INPUTS = {**_FLOATS, "tensor(uint8)": np.uint8}


class OnnxApi:
    """A file with one image input and one output of class scores, run by onnxruntime on the CPU.

    Names of input and output are free; the batch dimension may be free or fixed. `output` says what its
    scores are, if not probabilities: logits, percentages, rounded; `arrange` says what it wants images to look like.
    Without `spec`, name and classes are those that `export_onnx` wrote into the file, or numbers.

    Images go through in small batches, whose maps stay near the processor: 32 at a time is faster than 256, fewer where
    images are large. Each batch is computed by one thread, `threads` of them at once (by default as many as there are
    cores), so what comes out does not depend on their number. The session is opened at the first query and anew in each
    process, so the object travels to workers by pickle or fork.
    """

    answers_are_checked: Literal[True] = True

    def __init__(
        self,
        path: str | Path,
        spec: ApiSpec | None = None,
        *,
        threads: int | None = None,
        batch: int = 32,
        output: OutputConfig | None = None,
        arrange: Arrange | None = None,
    ) -> None:
        self.path, self.threads, self.batch, self.output, self.arrange = Path(path), threads, batch, output, arrange
        if not self.path.is_file():
            raise ConfigError(f"{self.path}: there is no such ONNX file")
        self.content: bytes | None = None
        """the file itself, where the API has travelled to a machine that may not have it"""
        self._opened: tuple[int, _Session] | None = None
        self.spec = spec if spec is not None else _own_spec(_open(self.path), self.path)

    def __call__(self, images: Tensor) -> Tensor:
        """Class probabilities (n, k) for images (n, c, h, w) in [0, 1]."""
        return ask(self.spec, images, self._respond)

    def _respond(self, images: Tensor) -> Tensor:
        session = self._session()
        pixels: ImageArray = images.cpu().contiguous().numpy()
        if self.arrange is not None:
            pixels = self.arrange(pixels)
        pixels = pixels.astype(session.dtype, copy=False)
        step = session.batch or max(1, min(self.batch, BATCH_NUMBERS // pixels[0].size))
        try:
            parts = side_by_side(session.run, [pixels[i : i + step] for i in range(0, len(pixels), step)], self.threads)
        except Exception as error:  # onnxruntime raises a dozen types that share no base
            raise ApiError(f"{self.spec.name}: {self.path} failed: {_first_line(error)}") from error
        answer = torch.from_numpy(np.concatenate(parts))
        return completed(self.spec, self.output, answer.float())

    def _session(self) -> "_Session":
        # A forked child must not use its parent's session, whose threads did not come along.
        if self._opened is None or self._opened[0] != os.getpid():
            session = _open(self.path, self.content, None if self.output is None else self.output.name)
            _check(session, self.spec, self.path, self.arrange)
            self._opened = os.getpid(), session
        return self._opened[1]

    def rest(self) -> None:
        """Give back the session's memory, megabytes for each file; the next query opens it again."""
        self._opened = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_opened": None}


@dataclass(frozen=True)
class _Session:
    """An opened file and what it says of itself; a dimension that is free is None."""

    session: Any
    input: str
    dtype: type
    image: tuple[int | None, ...]
    batch: int | None
    output: str
    way: int | None

    def run(self, pixels: ImageArray) -> ImageArray:
        """Scores (n, k); a file with a fixed batch gets the missing images as zeros, and their answers are dropped."""
        count = len(pixels)
        if self.batch and count < self.batch:
            pixels = np.concatenate([pixels, np.zeros((self.batch - count, *pixels.shape[1:]), pixels.dtype)])
        scores: ImageArray = self.session.run([self.output], {self.input: pixels})[0]
        return scores[:count]


def _open(path: Path, content: bytes | None = None, output: str | None = None) -> _Session:
    """Open the file; `output` names the one of its outputs that holds the scores, where there are several."""
    try:
        onnxruntime = import_module("onnxruntime")
    except ImportError as error:
        raise ConfigError(f"{path}: ONNX files need onnxruntime; run pip install 'dfml[onnx]'") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = 1, 1
    options.log_severity_level = 4  # what goes wrong is raised; nothing is printed
    try:
        session = onnxruntime.InferenceSession(content or path, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise ConfigError(f"{path}: not a readable ONNX file ({_first_line(error)})") from error
    inputs, outputs = session.get_inputs(), session.get_outputs()
    if len(inputs) != 1 or len(inputs[0].shape) != 4 or inputs[0].type not in _INPUTS:
        got = ", ".join(f"{i.name} {i.type} {i.shape}" for i in inputs)
        raise ConfigError(f"{path}: expected one float input (n, c, h, w), the file has {len(inputs)}: {got}")
    scores = [o for o in outputs if o.type in _FLOATS and len(o.shape) in (0, 2) and output in (None, o.name)]
    if len(scores) != 1:  # converted forests also give the winning label, which is no float
        got = ", ".join(f"{o.name} {o.type} {o.shape}" for o in outputs)
        wanted = "one float output" if output is None else f"a float output {output!r}"
        raise ConfigError(f"{path}: expected {wanted} (n, classes), the file has {got}; output.name chooses one")
    batch, *image = (d if isinstance(d, int) else None for d in inputs[0].shape)
    way = scores[0].shape[1] if len(scores[0].shape) == 2 else None
    return _Session(
        session=session,
        input=inputs[0].name,
        dtype=_INPUTS[inputs[0].type],
        image=tuple(image),
        batch=batch,
        output=scores[0].name,
        way=way if isinstance(way, int) else None,
    )


def _check(session: _Session, spec: ApiSpec, path: Path, arrange: Arrange | None = None) -> None:
    image = spec.image if arrange is None else arrange(np.zeros((1, *spec.image), np.float32)).shape[1:]
    if any(own is not None and own != told for own, told in zip(session.image, image, strict=True)):
        raise ConfigError(f"{path}: takes images {session.image}, but {spec.name} is described with {image}")
    if session.way is not None and session.way != spec.way:
        raise ConfigError(f"{path}: answers {session.way} classes, but {spec.name} is described with {spec.way}")


def _own_spec(session: _Session, path: Path) -> ApiSpec:
    """What the file says of itself, where it says enough."""
    told = session.session.get_modelmeta().custom_metadata_map
    channels, height, width = session.image
    if channels is None or height is None or width is None or (session.way is None and "classes" not in told):
        raise ConfigError(f"{path}: the file leaves image size or class count open; pass a spec that gives them")
    classes = json.loads(told["classes"]) if "classes" in told else map(str, range(session.way or 0))
    spec = ApiSpec(name=told.get("name", path.stem), classes=tuple(classes), image=(channels, height, width))
    _check(session, spec, path)
    return spec


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]
