"""The seam between dfml and everything that answers queries."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, Protocol, Self, runtime_checkable

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from dfml.errors import BadAnswer, ConfigError
from dfml.nets.export import EndToEnd

CALL_BYTES = 64_000_000
"""Images of one call as float32 take no more memory than this; wrappers and backends hold a few copies."""
OutputKind = Literal["probs", "top-k", "label"]
ImageArray = NDArray[Any]
"""images as NumPy knows them, in whatever layout and units an API takes"""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """On which terms an API may be asked."""

    remote: bool = False
    """its answers travel over a network: waiting for them uses no processor"""
    price: float | None = None
    """USD for 1,000 images"""
    budget: int | None = None
    """images that it may be asked about in one run"""

    @property
    def costs(self) -> bool:
        """Whether it should be asked only within a limit."""
        return self.remote or bool(self.price)


@dataclass(frozen=True, kw_only=True)
class ApiSpec:
    """What is known of an API from the outside."""

    name: str
    classes: tuple[str, ...]
    """class names, in the order of the answer's columns"""
    image: tuple[int, int, int]
    """(channels, height, width) of what it takes"""
    output: OutputKind = "probs"
    """full probabilities, only the largest few, or nothing but the winner"""
    levels: int | None = None
    """256 where images travel as 8-bit files; None where floats arrive as they are"""
    decimals: int | None = None
    """decimals of an answer; None where it is not rounded"""
    top_k: int | None = None
    """how many scores an answer carries when `output` is "top-k" """
    accuracy: float | None = None
    """reported accuracy as a fraction, if anybody reported one"""
    terms: Terms = Terms()

    def __post_init__(self) -> None:
        if len(self.classes) < 2:
            raise ConfigError(f"{self.name}: an API needs at least 2 classes, got {len(self.classes)}; name them all")
        if len(set(self.classes)) != len(self.classes):
            twice = sorted({c for c in self.classes if self.classes.count(c) > 1})
            raise ConfigError(f"{self.name}: class names must differ, but {', '.join(twice)} stands twice; rename one")

    @property
    def way(self) -> int:
        """The number of classes."""
        return len(self.classes)

    @cached_property
    def columns(self) -> Mapping[str, int]:
        """The place of each class in an answer."""
        return {name: column for column, name in enumerate(self.classes)}

    def with_changes(self, **changes: object) -> Self:
        """The same API with some facts changed, as a wrapper needs it."""
        return replace(self, **changes)  # type: ignore[arg-type]


@runtime_checkable
class BlackBox(Protocol):
    """An image classifier that can be called and nothing else."""

    @property
    def spec(self) -> ApiSpec: ...

    def __call__(self, images: Tensor) -> Tensor:
        """Class probabilities (n, k), detached, for images (n, c, h, w) in [0, 1]."""
        ...


@runtime_checkable
class Checked(BlackBox, Protocol):
    """A black box whose answers have passed `check_answer` before they come out: once is enough."""

    answers_are_checked: Literal[True]


@runtime_checkable
class WhiteBox(BlackBox, Protocol):
    """A black box that also shows its input gradients: only the white-box bound may ask for it."""

    def differentiable(self, images: Tensor) -> Tensor:
        """Class probabilities (n, k) with the autograd graph back to `images`."""
        ...


@runtime_checkable
class OpenBox(WhiteBox, Protocol):
    """A white box that shows all of itself: only methods that `NEEDS_WEIGHTS` says so of may look."""

    @property
    def network(self) -> EndToEnd:
        """From pixels to probabilities; not to be changed."""
        ...


@runtime_checkable
class AnswersInParts(BlackBox, Protocol):
    """A black box whose answers arrive in parts, such as one request an image: each is kept as it comes."""

    def answers_in_parts(self, images: Tensor) -> Iterator[tuple[Sequence[int], Tensor]]:
        """Pairs of m rows of `images` and their class probabilities (m, k): any order, every row once."""
        ...


def gather(api: AnswersInParts, images: Tensor) -> Tensor:
    """All answers (n, k) of an API that gives them in parts, in the order of `images`."""
    answers = torch.empty(len(images), api.spec.way)
    for rows, part in api.answers_in_parts(images):
        answers[list(rows)] = part.to(answers.device)
    return answers.to(images.device)


@runtime_checkable
class Endpoint(BlackBox, Protocol):
    """A black box with a server behind it, which tells how that is asked."""

    @property
    def images_per_request(self) -> int:
        """Images that travel together, after what the server said about larger requests."""
        ...

    @property
    def requests_per_second(self) -> float | None:
        """The most that may be sent; None where nothing limits them."""
        ...

    @property
    def last_scores(self) -> Any:
        """The latest answer as it came: a table (n, k), or pairs of class and score for each image; None before one."""
        ...


def endpoint_of(api: BlackBox) -> Endpoint | None:
    """The endpoint inside however many wrappers, or None where no server is asked."""
    inner = innermost(api)
    return inner if isinstance(inner, Endpoint) else None


def innermost(api: BlackBox) -> BlackBox:
    """The API itself, however many wrappers are around it."""
    while (inner := getattr(api, "api", None)) is not None:
        api = inner
    return api


def images_a_call(most: int, *shapes: Sequence[int]) -> int:
    """How many images a call may hold: `most`, or fewer where they are so large, in any of `shapes` (c, h, w), that
    together they would pass `CALL_BYTES` as float32."""
    return max(1, min(most, CALL_BYTES // (4 * max(math.prod(shape) for shape in shapes))))


def rest(api: BlackBox) -> None:
    """Give back what an API and its wrappers need only while they are asked: opened files, idle connections."""
    layer: object = api
    while layer is not None:
        pause = getattr(layer, "rest", None)
        if callable(pause):
            pause()
        layer = getattr(layer, "api", None)


def release(api: BlackBox) -> None:
    """End what an API holds open, such as requests that are waited for."""
    close = getattr(innermost(api), "close", None)
    if callable(close):
        close()


def reach(api: BlackBox) -> None:
    """`Unreachable` if an API has a server and that does not answer; it costs no query."""
    knock = getattr(innermost(api), "reach", None)
    if callable(knock):
        knock()


def fit_to(images: Tensor, shape: tuple[int, int, int]) -> Tensor:
    """Images (n, c, h, w) resized and re-channelled to `shape`, as an endpoint does with any upload.

    Grey becomes three equal channels, colour becomes ITU-R 601 luma; other channel counts cannot be converted.
    """
    channels, height, width = shape
    if images.shape[-2:] != (height, width):
        images = F.interpolate(images, (height, width), mode="bilinear", antialias=True, align_corners=False)
        images = images.clamp(0, 1)  # the filter's weights sum to one only up to rounding
    if images.shape[1] == channels:
        return images
    if images.shape[1] == 1 and channels == 3:
        return images.expand(-1, 3, -1, -1)
    if images.shape[1] == 3 and channels == 1:
        luma = torch.tensor([0.299, 0.587, 0.114], dtype=images.dtype, device=images.device)
        return (images * luma.view(1, 3, 1, 1)).sum(1, keepdim=True).clamp(0, 1)
    raise ConfigError(f"cannot turn images of {images.shape[1]} channels into {channels}; pass 1 or 3 channels")


def shrunk(images: Tensor, shape: tuple[int, int, int]) -> Tensor:
    """8-bit images brought to `shape`, in parts: as floats, all of them at once could be large."""
    parts = [fit_to(part.float() / 255, shape).mul(255).round_().to(torch.uint8) for part in images.split(64)]
    return torch.cat(parts) if parts else torch.empty(0, *shape, dtype=torch.uint8)


def prepare(spec: ApiSpec, images: Tensor) -> Tensor:
    """`images` as float32 of the shape that the API takes, if they are images in [0, 1]; else `ConfigError`."""
    if images.dim() != 4 or 0 in images.shape[1:]:
        raise ConfigError(f"{spec.name}: expected images of shape (n, c, h, w), got {tuple(images.shape)}")
    if not images.is_floating_point():
        raise ConfigError(f"{spec.name}: expected float images in [0, 1], got {images.dtype}; divide 8-bit ones by 255")
    images = images.to(torch.float32)
    if len(images) == 0:
        return images.new_zeros(0, *spec.image)
    low, high = (bound.item() for bound in torch.aminmax(images.detach()))
    if not (low >= 0 and high <= 1):  # NaN fails this, too
        raise ConfigError(
            f"{spec.name}: expected images in [0, 1], got values from {low:.4g} to {high:.4g}; clamp or rescale them"
        )
    return fit_to(images, spec.image)


def ask(spec: ApiSpec, images: Tensor, respond: Callable[[Tensor], Tensor]) -> Tensor:
    """The way in and out of every backend: what goes to `respond` fits the API, what comes back are probabilities."""
    ready = prepare(spec, images).detach()
    if len(ready) == 0:
        return torch.zeros(0, spec.way, device=images.device)
    return check_answer(spec, respond(ready), len(ready)).to(images.device)


def check_answer(spec: ApiSpec, answer: Tensor, count: int) -> Tensor:
    """`answer` as float32 if it is `count` probability vectors, else `BadAnswer` saying what came back."""
    answer = answer.detach().to(torch.float32)
    # In NumPy: every operation of torch gives other threads a turn, and where several wait for answers, they take it.
    check_scores(spec, answer.cpu().numpy(), count)
    return answer


def check_scores(spec: ApiSpec, scores: NDArray[np.float32], count: int) -> None:
    """Return if `scores` are `count` probability vectors, else `BadAnswer` saying what they are."""
    if scores.ndim != 2 or scores.shape[0] != count:
        raise BadAnswer(f"{spec.name}: expected {count} answers of {spec.way} classes, got shape {scores.shape}")
    if scores.shape[1] != spec.way:
        raise BadAnswer(
            f"{spec.name}: expected {spec.way} classes ({', '.join(spec.classes[:5])}{', …' * (spec.way > 5)}), "
            f"got {scores.shape[1]} scores an image"
        )
    sums = scores.sum(1)
    off = sums - 1
    # A score rounded to d decimals is off by at most half a unit of the last; one that arrives as 0 was smaller.
    half = 0.0 if spec.decimals is None else 0.5 * 10.0**-spec.decimals
    below = spec.way * half + 1e-3
    if count == 0 or (scores.min() >= 0 and off.min() >= -below and off.max() <= 1e-3):
        return  # NaN fails the first test, infinity the last
    above = np.count_nonzero(scores, axis=1) * half + 1e-3
    wrong = ~((off >= -below) & (off <= above))
    if scores.min() >= 0 and not wrong.any():
        return
    fine = (scores >= 0) & (scores < np.inf)
    if not fine.all():
        row, column = np.argwhere(~fine)[0]
        bad = f"{scores[row, column]:.4g} in the answer to image {row}"
        raise BadAnswer(f"{spec.name}: expected probabilities, got {bad}")
    raise BadAnswer(f"{spec.name}: expected probabilities that sum to 1, got a sum of {sums[wrong][0]:.4g}")
