"""What real endpoints do to a query, as wrappers around any API that compose in any order."""

import torch
from torch import Tensor

from dfml.apis.blackbox import BlackBox, prepare
from dfml.errors import ConfigError


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


class Quantised:
    """Images lose everything between `levels` values a pixel before they are sent, as in a PNG."""

    def __init__(self, api: BlackBox, levels: int = 256) -> None:
        if levels < 2:
            raise ConfigError(f"{api.spec.name}: an image needs at least 2 levels, got {levels}; files have 256")
        self.api, self.levels, self.spec = api, levels, api.spec.but(levels=levels)

    def __call__(self, images: Tensor) -> Tensor:
        """Class probabilities (n, k) for images (n, c, h, w) in [0, 1]."""
        return self.api(to_grid(prepare(self.spec, images), self.levels) / (self.levels - 1))


class Rounded:
    """Scores come with `decimals` decimals. Their sum is then 1 only up to rounding: it is what the API says."""

    def __init__(self, api: BlackBox, decimals: int) -> None:
        if decimals < 0:
            raise ConfigError(f"{api.spec.name}: decimals must be 0 or more, got {decimals}; endpoints give 2 to 6")
        known = api.spec.decimals
        self.api, self.decimals = api, decimals
        self.spec = api.spec.but(decimals=decimals if known is None else min(known, decimals))

    def __call__(self, images: Tensor) -> Tensor:
        """Class probabilities (n, k) for images (n, c, h, w) in [0, 1]."""
        exact = self.api(images)
        scores = torch.round(exact, decimals=self.decimals)
        if self.spec.top_k is None:
            return scores
        return keep_top(scores, leaders(exact, self.spec.top_k))  # only the scores that are sent can be rounded


class TopK:
    """Only the `k` largest scores come back; `keep_top` states what becomes of the others."""

    def __init__(self, api: BlackBox, k: int) -> None:
        if k < 1:
            raise ConfigError(f"{api.spec.name}: an answer needs at least its largest score, got k = {k}")
        self.api, self.k = api, min(k, api.spec.top_k or api.spec.way)
        self.spec = api.spec
        if self.k < api.spec.way and api.spec.output != "label":  # a label says less than any of its top scores
            self.spec = api.spec.but(output="top-k", top_k=self.k)

    def __call__(self, images: Tensor) -> Tensor:
        """Class probabilities (n, k) for images (n, c, h, w) in [0, 1]."""
        scores = self.api(images)
        return keep_top(scores, leaders(scores, self.k))


class LabelOnly:
    """Nothing but the winner comes back, as a one-hot vector; of equal scores the first class wins."""

    def __init__(self, api: BlackBox) -> None:
        self.api, self.spec = api, api.spec.but(output="label", top_k=None)

    def __call__(self, images: Tensor) -> Tensor:
        """Class probabilities (n, k) for images (n, c, h, w) in [0, 1]."""
        scores = self.api(images)
        return torch.zeros_like(scores).scatter(1, leaders(scores, 1), 1.0)
