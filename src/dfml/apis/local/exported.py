"""A `.pt2` file of torch.export behind the seam. Loading one unpickles parts of it: use files that you trust."""

import io
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from zipfile import is_zipfile

import torch
from torch import Tensor

from dfml.apis.blackbox import ApiSpec, ask
from dfml.apis.local.onnx import Arrange
from dfml.apis.scores import OutputConfig, completed
from dfml.errors import ApiError, ConfigError

BATCH = 64
BATCH_NUMBERS = BATCH * 3 * 84 * 84
"""Numbers of a batch's images at most, or maps of large ones take gigabytes."""


@dataclass(frozen=True)
class _Program:
    """An opened file, what it takes, and how many images at once."""

    module: Any
    dtype: torch.dtype
    least: int
    most: int


class ExportedApi:
    """An exported program with one image input and one output of class scores.

    The batch it was exported with is obeyed: a fixed or least one is filled up with empty images, whose answers are
    dropped. `output` says what its scores are, if not probabilities; `arrange` says what it wants images to look like.
    """

    answers_are_checked: Literal[True] = True

    def __init__(
        self,
        path: str | Path,
        spec: ApiSpec,
        *,
        output: OutputConfig | None = None,
        arrange: Arrange | None = None,
    ) -> None:
        self.path, self.spec, self.output, self.arrange = Path(path), spec, output, arrange
        if not self.path.is_file():
            raise ConfigError(f"{self.path}: there is no such .pt2 file")
        self.content: bytes | None = None
        """the file itself, where the API has travelled to a machine that may not have it"""
        self._opened: _Program | None = None
        self._lock = threading.Lock()

    def __call__(self, images: Tensor) -> Tensor:
        """Class probabilities (n, k) for images (n, c, h, w) in [0, 1]."""
        return ask(self.spec, images, self._respond)

    def _respond(self, images: Tensor) -> Tensor:
        with self._lock:
            program = self._opened = self._opened or _open(self.path, self.content)
        pixels = images.cpu() if self.arrange is None else torch.from_numpy(self.arrange(images.cpu().numpy()))
        most = max(program.least, min(program.most, BATCH_NUMBERS // pixels[0].numel()))
        try:
            with torch.inference_mode():
                parts = [_run(program, part) for part in torch.split(pixels.to(program.dtype), most)]
        except Exception as error:  # a traced program raises whatever its operators raise
            reason = str(error).strip().split("\n")[0]
            raise ApiError(f"{self.spec.name}: {self.path} failed: {reason}") from error
        return completed(self.spec, self.output, torch.cat(parts).float())

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key not in ("_opened", "_lock")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _opened=None, _lock=threading.Lock())


def _run(program: _Program, images: Tensor) -> Tensor:
    count = len(images)
    if count < program.least:
        images = torch.cat([images, images.new_zeros(program.least - count, *images.shape[1:])])
    scores: Tensor = program.module(images)
    return scores[:count]


def _open(path: Path, content: bytes | None) -> _Program:
    file = path if content is None else io.BytesIO(content)
    whole = is_zipfile(file)
    if isinstance(file, io.BytesIO):
        file.seek(0)
    if not whole:  # of which torch would also tell standard error
        raise ConfigError(f"{path}: not a readable .pt2 file of torch.export (it is no archive)")
    try:
        program = torch.export.load(file)
    except Exception as error:
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise ConfigError(f"{path}: not a readable .pt2 file of torch.export ({reason})") from error
    taken = [
        node.meta["val"]
        for node in program.graph.nodes
        if node.op == "placeholder" and node.name in program.graph_signature.user_inputs
    ]
    if len(taken) != 1 or not isinstance(taken[0], Tensor) or taken[0].dim() != 4:
        raise ConfigError(f"{path}: expected one input of images (n, c, h, w), the file has {len(taken)}")
    least, most = _batch(taken[0].shape[0], program.range_constraints)
    return _Program(program.module(), taken[0].dtype, least, most)


def _batch(size: Any, ranges: Any) -> tuple[int, int]:
    """The fewest and the most images that one call may have."""
    if isinstance(size, int):
        return size, size
    bounds = ranges.get(size.node.expr)
    if bounds is None:
        return 1, BATCH
    least = max(1, int(bounds.lower))
    most = int(bounds.upper) if bounds.upper < BATCH else BATCH  # it may be infinite
    return least, max(least, most)
