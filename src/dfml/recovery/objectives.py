"""What recovery minimises: an API's answer against a wanted class, image by image (eq:lossclsbatch, eq:adaptive)."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dfml.apis.blackbox import BlackBox, WhiteBox
from dfml.errors import ConfigError
from dfml.losses import First, boundary, target_nll

StudentLogits = Callable[[Tensor], Tensor]
"""images (n, c, h, w) -> logits (n, k)"""


@dataclass(frozen=True)
class Anchor:
    """The objective around images x: it knows what was said at x and can be asked at probes near it."""

    objective: "RecoveryObjective"
    probs: Tensor  # (n, k) the API's answers at x
    value: Tensor  # (n,) the objective at x
    agree: Tensor | None  # (n,) whether API and student name the same class at x; None without a student
    gradient: Tensor | None = None  # like x, where a white box gave it

    def of(self, rows: Tensor) -> "Anchor":
        """The same around some of the images, chosen by index or mask."""
        agree, gradient = (None if t is None else t[rows] for t in (self.agree, self.gradient))
        return Anchor(self.objective.of(rows), self.probs[rows], self.value[rows], agree, gradient)

    def __call__(self, probes: Tensor) -> Tensor:
        """Values (m, n) at probes (m, n, c, h, w) within [0, 1], for one query each."""
        m, n = probes.shape[:2]
        images = probes.flatten(0, 1)
        agree = None if self.agree is None else self.agree.repeat(m)
        with torch.no_grad():
            return self.objective.values(self.objective.api(images), images, agree).view(m, n)


@dataclass(frozen=True)
class RecoveryObjective:
    """CE(A(x), y), and with a student also  - weight * 1[argmax F = argmax A] * KL(A(x) || F(x)).

    API and student are both evaluated at the probe; the indicator is held at x for a whole estimate.
    """

    api: BlackBox
    targets: Tensor  # (n,)
    student: StudentLogits | None = None
    weight: float = 1.0
    first: First = "api"
    floor: float = 1e-6

    def of(self, rows: Tensor) -> "RecoveryObjective":
        """The objective of some of the images, chosen by index or mask."""
        return replace(self, targets=self.targets[rows])

    def values(self, probs: Tensor, images: Tensor, agree: Tensor | None) -> Tensor:
        """The objective (m * n,) of m copies of the n images, given the answers (m * n, k) to them."""
        probs = unrounded(probs, self.api.spec.decimals)
        targets = self.targets.repeat(len(images) // len(self.targets))
        if self.student is None or agree is None:
            return target_nll(probs, targets, floor=self.floor)
        logits = self.student(images)
        return boundary(probs, targets, logits, agree, weight=self.weight, first=self.first, floor=self.floor)

    def at(self, x: Tensor, *, exact: bool = False) -> Anchor:
        """Ask about x (n, c, h, w) itself: n queries. `exact` asks a white box, which also gives the true gradient."""
        if not exact:
            with torch.no_grad():
                probs = self.api(x)
                agree = self._agree(probs, x)
                return Anchor(self, probs, self.values(probs, x, agree), agree)
        if not isinstance(self.api, WhiteBox):
            raise ConfigError(f"{self.api.spec.name}: exact gradients need a white box; choose another `estimator`")
        leaf = x.detach().requires_grad_()
        probs = self.api.differentiable(leaf)
        agree = self._agree(probs.detach(), x)
        value = self.values(probs, leaf, agree)
        (gradient,) = torch.autograd.grad(value.sum(), leaf)
        return Anchor(self, probs.detach(), value.detach(), agree, gradient)

    def _agree(self, probs: Tensor, x: Tensor) -> Tensor | None:
        if self.student is None:
            return None
        with torch.no_grad():
            return self.student(x).argmax(1) == probs.argmax(1)


def unrounded(probs: Tensor, decimals: int | None) -> Tensor:
    """Answers of so many decimals, as their logarithms are best taken.

    What was rounded to 0 lies between 0 and half a unit: here it is the middle, so that its logarithm is finite and the
    step up to the first unit no cliff.
    """
    return probs if decimals is None else probs.clamp_min(0.25 * 10.0**-decimals)
