"""A TensorFlow Lite file behind the seam, run by LiteRT (`ai-edge-litert`) on the CPU."""

import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from dfml.apis.blackbox import ApiSpec, ImageArray, ask
from dfml.apis.local.threads import side_by_side
from dfml.apis.pixels import InputConfig, arranged
from dfml.apis.scores import OutputConfig, completed
from dfml.errors import ApiError, ConfigError

BATCH = 8
"""images that one thread takes at a time"""
_FLOATS = (np.float32, np.float16)
_BYTES = (np.uint8, np.int8)
_SAYING, _said = threading.Lock(), False


class TfliteApi:
    """A file with one image input and one output of class scores.

    What the file says of itself is followed: channels first or last; 8-bit images, which go in as 0..255 unless
    `input` has a mean or std; 8-bit scores, which are multiples of its scale, so that small ones are 0 and `output`
    says what becomes of them. A float file gets values in [0, 1], or 0..255 with `input.encoding = "uint8"`.

    Images go through one by one: of four public 8-bit files three allow nothing else, and a float one was 10 to 20 %
    faster in batches. An interpreter computes for one thread at a time; there are as many as threads ask at once. They
    are made at the first query and anew in every process, so the object travels to workers by pickle or fork.
    """

    answers_are_checked: Literal[True] = True

    def __init__(
        self,
        path: str | Path,
        spec: ApiSpec,
        *,
        threads: int | None = None,
        input: InputConfig | None = None,
        output: OutputConfig | None = None,
    ) -> None:
        self.path, self.threads = Path(path), threads
        if not self.path.is_file():
            raise ConfigError(f"{self.path}: there is no such TFLite file")
        self.content: bytes | None = None
        """the file itself, where the API has travelled to a machine that may not have it"""
        self.input, self.output = input or InputConfig(), output or OutputConfig()
        facts = _facts(_open(self.path, None), self.path, self.output.name)
        self.input = replace(self.input, layout=_layout(facts, spec, self.path))
        if facts.dtype in _BYTES and self.input.mean is None and self.input.std is None:
            self.input = replace(self.input, encoding="uint8")
            spec = spec.with_changes(levels=256)
        if facts.way != spec.way:
            raise ConfigError(
                f"{self.path}: answers {facts.way} classes, but {spec.name} is described with {spec.way}; "
                "name them all, in the file's order"
            )
        if facts.step and self.output.step is None and self.output.scale != "logits":
            self.output = replace(self.output, step=min(1.0, facts.step / (100 if self.output.scale == "100" else 1)))
        self.spec = spec
        self._idle = _Idle()

    def __call__(self, images: Tensor) -> Tensor:
        """Class probabilities (n, k) for images (n, c, h, w) in [0, 1]."""
        return ask(self.spec, images, self._respond)

    def _respond(self, images: Tensor) -> Tensor:
        pixels = images.cpu().numpy()
        try:
            parts = side_by_side(self._run, [pixels[i : i + BATCH] for i in range(0, len(pixels), BATCH)], self.threads)
        except (RuntimeError, ValueError) as error:  # what LiteRT raises
            raise ApiError(f"{self.spec.name}: {self.path} failed: {_first_line(error)}") from error
        return completed(self.spec, self.output, torch.from_numpy(np.concatenate(parts)))

    def _run(self, pixels: ImageArray) -> ImageArray:
        """Scores (n, k), float64, for images (n, c, h, w) in [0, 1]."""
        idle = self._idle.here()
        opened = idle.pop() if idle else None
        if opened is None:
            interpreter = _open(self.path, self.content)
            opened = interpreter, _facts(interpreter, self.path, self.output.name)
        interpreter, facts = opened
        scores = np.empty((len(pixels), facts.way))
        for row, image in enumerate(facts.stored(arranged(pixels, self.input), self.input)):
            interpreter.set_tensor(facts.input, image[None])
            interpreter.invoke()
            scores[row] = facts.read(interpreter.get_tensor(facts.output))
        idle.append(opened)
        return scores

    def rest(self) -> None:
        """Give back the interpreters' memory, megabytes for each; the next query makes new ones."""
        self._idle = _Idle()

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "_idle"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _idle=_Idle())


@dataclass(frozen=True)
class _Facts:
    """What an opened file says of itself."""

    input: int
    image: tuple[int, ...]
    dtype: type
    input_scale: tuple[float, int]
    output: int
    way: int
    step: float | None
    """what 8-bit scores are multiples of; None for floats"""
    zero: int

    def stored(self, pixels: ImageArray, config: InputConfig) -> ImageArray:
        """Images in the API's layout and units as the numbers that the file takes."""
        if self.dtype in _FLOATS:
            return pixels.astype(self.dtype, copy=False)
        if config.encoding == "uint8":
            return pixels if self.dtype is np.uint8 else (pixels.astype(np.int16) - 128).astype(np.int8)
        scale, zero = self.input_scale
        bounds = np.iinfo(self.dtype)
        return np.clip(np.rint(pixels / (scale or 1.0) + zero), bounds.min, bounds.max).astype(self.dtype)

    def read(self, scores: ImageArray) -> ImageArray:
        """The scores that the file's numbers stand for."""
        values = scores.reshape(-1).astype(np.float64)
        return values if self.step is None else (values - self.zero) * self.step


@dataclass
class _Idle:
    """Opened interpreters that are not in use. A list's own `pop` and `append` are safe between threads."""

    process: int = field(default_factory=os.getpid)
    opened: list[tuple[Any, _Facts]] = field(default_factory=list)
    lock: Any = field(default_factory=threading.Lock)

    def here(self) -> list[tuple[Any, _Facts]]:
        """Those of this process: a forked child must not use its parent's, whose threads did not come along."""
        with self.lock:
            if self.process != os.getpid():
                self.process, self.opened = os.getpid(), []
            return self.opened


def _open(path: Path, content: bytes | None) -> Any:
    try:
        litert = import_module("ai_edge_litert.interpreter")
    except ImportError as error:
        raise ConfigError(f"{path}: TFLite files need ai-edge-litert; run pip install 'dfml[tflite]'") from error
    source = {"model_path": str(path)} if content is None else {"model_content": content}
    try:
        with _quiet():
            interpreter = litert.Interpreter(**source, num_threads=1)
            interpreter.allocate_tensors()
    except (RuntimeError, ValueError) as error:
        raise ConfigError(f"{path}: not a readable TFLite file ({_first_line(error)})") from error
    return interpreter


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the line that LiteRT writes to standard error at the first file; nothing in Python turns it off.

    All else that is written meanwhile, by whichever thread, comes a moment later.
    """
    global _said
    if _said:
        yield
        return
    with _SAYING, tempfile.TemporaryFile() as meanwhile:
        kept = os.dup(2)
        os.dup2(meanwhile.fileno(), 2)
        try:
            yield
            _said = True
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            meanwhile.seek(0)
            os.write(2, b"".join(line for line in meanwhile if not line.startswith(b"INFO: Created TensorFlow")))


def _facts(interpreter: Any, path: Path, name: str | None) -> _Facts:
    """What the file takes and answers, if that is images and scores; `name` chooses one of several outputs."""
    inputs, outputs = interpreter.get_input_details(), interpreter.get_output_details()
    if len(inputs) != 1 or len(inputs[0]["shape"]) != 4 or inputs[0]["dtype"] not in (*_FLOATS, *_BYTES):
        raise ConfigError(f"{path}: expected one input of images, float or 8-bit, the file has {_described(inputs)}")
    scores = [o for o in outputs if name in (None, o["name"]) and o["dtype"] in (*_FLOATS, *_BYTES)]
    if len(scores) != 1 or inputs[0]["shape"][0] != 1 or scores[0]["shape"][:1].tolist() != [1]:
        wanted = "one output of scores" if name is None else f"an output {name!r} of scores"
        raise ConfigError(
            f"{path}: expected {wanted} for one image at a time, the file has {_described(outputs)}; "
            "output.name chooses one"
        )
    scale, zero = scores[0]["quantization"]
    return _Facts(
        input=inputs[0]["index"],
        image=tuple(int(size) for size in inputs[0]["shape"][1:]),
        dtype=inputs[0]["dtype"],
        input_scale=inputs[0]["quantization"],
        output=scores[0]["index"],
        way=int(np.prod(scores[0]["shape"])),
        step=(float(scale) or 1.0) if scores[0]["dtype"] in _BYTES else None,
        zero=int(zero),
    )


def _layout(facts: _Facts, spec: ApiSpec, path: Path) -> Literal["nchw", "nhwc"]:
    """Channels last, as TensorFlow likes it, unless only channels first fits."""
    channels, height, width = spec.image
    if facts.image == (height, width, channels):
        return "nhwc"
    if facts.image == spec.image:
        return "nchw"
    raise ConfigError(
        f"{path}: takes images (height, width, channels) {facts.image}, but {spec.name} is described with image = "
        f"{list(spec.image)} (channels, height, width); correct image"
    )


def _described(tensors: list[Any]) -> str:
    return ", ".join(f"{t['name']} {np.dtype(t['dtype']).name} {t['shape'].tolist()}" for t in tensors) or "none"


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]
