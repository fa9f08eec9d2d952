"""What real endpoints do to a query, as wrappers around any API that compose in any order."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from dfml.apis.blackbox import ApiSpec, BlackBox, prepare
from dfml.apis.wire import AnswerPart, Unwatched, Wire, ask_on_wire
from dfml.errors import ConfigError, nearest


def to_grid(images: Tensor, levels: int) -> Tensor:
    """Images in [0, 1] as whole numbers 0 .. levels - 1, in their own float type: what an 8-bit file keeps of them."""
    return (images * (levels - 1)).round()


def leaders(scores: Tensor, k: int) -> Tensor:
    """The columns (n, k) of the largest scores, largest first; of equal scores the first class wins."""
    return scores.argsort(dim=1, descending=True, stable=True)[:, :k]


def keep_top(scores: Tensor, top: Tensor) -> Tensor:
    """Scores (n, k) of which only the columns `top` (n, j) survive.

    The rule for the rest, which an endpoint does not send: what the kept scores miss to 1 is spread evenly over the
    other classes; nothing, where rounding lifted the kept ones to 1 or more.
    """
    others = scores.shape[1] - top.shape[1]
    if others == 0:
        return scores
    kept = scores.gather(1, top)
    missing = (1 - kept.sum(1, keepdim=True)).clamp(min=0)
    return (missing / others).expand(scores.shape).scatter(1, top, kept)


class Degraded:
    """An API behind something that loses a part of what goes in or comes out; answers still come in their parts."""

    def __init__(self, api: BlackBox, spec: ApiSpec) -> None:
        self.api, self.spec = api, spec

    def __call__(self, images: Tensor) -> Tensor:
        """Class probabilities (n, k) for images (n, c, h, w) in [0, 1]."""
        return self.outgoing(self.api(self.incoming(images)))

    def answers_in_parts(self, images: Tensor) -> Iterator[tuple[Sequence[int], Tensor]]:
        """The same in parts: rows of `images` and their class probabilities."""
        yield from self.answers_on_wire(images, Unwatched())

    def answers_on_wire(self, images: Tensor, wire: Wire) -> Iterator[AnswerPart]:
        """The same, and `wire` knows of every request."""
        for rows, scores in ask_on_wire(self.api, self.incoming(images), _Watched(wire, self)):
            yield rows, self.outgoing(scores)

    def incoming(self, images: Tensor) -> Tensor:
        """What is left of `images` (n, c, h, w) when they arrive."""
        return images

    def outgoing(self, scores: Tensor) -> Tensor:
        """What is left of `scores` (n, k) when they come back."""
        return scores


class _Watched:
    """A wire to which what comes late is as coarse as everything else."""

    def __init__(self, wire: Wire, endpoint: Degraded) -> None:
        self._wire, self._endpoint = wire, endpoint
        self.sending, self.ended = wire.sending, wire.ended

    def rescue(self, rows: Sequence[int], scores: Tensor) -> None:
        self._wire.rescue(rows, self._endpoint.outgoing(scores))


class Quantised(Degraded):
    """Images lose everything between `levels` values a pixel before they are sent, as in a PNG."""

    def __init__(self, api: BlackBox, levels: int = 256) -> None:
        if levels < 2:
            raise ConfigError(f"{api.spec.name}: an image needs at least 2 levels, got {levels}; files have 256")
        super().__init__(api, api.spec.with_changes(levels=levels))
        self.levels = levels

    def incoming(self, images: Tensor) -> Tensor:
        return to_grid(prepare(self.spec, images), self.levels) / (self.levels - 1)


class Rounded(Degraded):
    """Scores come with `decimals` decimals. Their sum is then 1 only up to rounding: it is what the API says."""

    def __init__(self, api: BlackBox, decimals: int) -> None:
        if decimals < 0:
            raise ConfigError(f"{api.spec.name}: decimals must be 0 or more, got {decimals}; endpoints give 2 to 6")
        known = api.spec.decimals
        super().__init__(api, api.spec.with_changes(decimals=decimals if known is None else min(known, decimals)))
        self.decimals = decimals

    def outgoing(self, scores: Tensor) -> Tensor:
        rounded = torch.round(scores, decimals=self.decimals)
        if self.spec.top_k is None:
            return rounded
        return keep_top(rounded, leaders(scores, self.spec.top_k))  # only the scores that are sent can be rounded


class TopK(Degraded):
    """Only the `k` largest scores come back; `keep_top` states what becomes of the others."""

    def __init__(self, api: BlackBox, k: int) -> None:
        if k < 1:
            raise ConfigError(f"{api.spec.name}: an answer needs at least its largest score, got k = {k}")
        self.k, spec = min(k, api.spec.top_k or api.spec.way), api.spec
        if self.k < spec.way and spec.output != "label":  # a label says less than any of its top scores
            spec = spec.with_changes(output="top-k", top_k=self.k)
        super().__init__(api, spec)

    def outgoing(self, scores: Tensor) -> Tensor:
        return keep_top(scores, leaders(scores, self.k))


class LabelOnly(Degraded):
    """Nothing but the winner comes back, as a one-hot vector; of equal scores the first class wins."""

    def __init__(self, api: BlackBox) -> None:
        super().__init__(api, api.spec.with_changes(output="label", top_k=None))

    def outgoing(self, scores: Tensor) -> Tensor:
        return torch.zeros_like(scores).scatter(1, leaders(scores, 1), 1.0)


class WithoutBackground(Degraded):
    """The class that means "none of the others" is dropped, and the others are divided by their sum.

    An answer that gives everything to that class says nothing of the others: it is spread evenly over them.
    """

    def __init__(self, api: BlackBox, background: str) -> None:
        classes = api.spec.classes
        if background not in classes:
            raise ConfigError(f"{api.spec.name}: {background!r} is not in its classes; {nearest(background, classes)}")
        keep = [column for column, name in enumerate(classes) if name != background]
        spec = api.spec.with_changes(classes=tuple(classes[column] for column in keep), decimals=None)
        if spec.top_k is not None:
            spec = spec.with_changes(top_k=min(spec.top_k, spec.way))
        super().__init__(api, spec)
        self._keep = torch.tensor(keep)

    def outgoing(self, scores: Tensor) -> Tensor:
        kept = scores[:, self._keep.to(scores.device)]
        mass = kept.sum(1, keepdim=True)
        return torch.where(mass > 0, kept / mass, 1 / kept.shape[1])
