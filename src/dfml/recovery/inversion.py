"""The paper's recovery: latent vectors and a generator, driven by what the API says about their images."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from dfml.apis.blackbox import BlackBox
from dfml.config import above_zero, zero_or_more
from dfml.errors import ConfigError
from dfml.images.generator import Generator
from dfml.losses import First
from dfml.recovery.extraction import ExtractionConfig
from dfml.recovery.gradients import Estimator, GradientEstimate, antithetic, snap, sphere
from dfml.recovery.objectives import Anchor, RecoveryObjective, StudentLogits
from dfml.recovery.recovered import ClassKey, RecoveredSet
from dfml.recovery.subspace import orthogonal, subspace

EstimatorName = Literal["sphere", "antithetic", "orthogonal", "subspace", "exact"]

ESTIMATORS: dict[str, Estimator] = {
    "sphere": sphere,
    "antithetic": antithetic,
    "orthogonal": orthogonal,
    "subspace": subspace,
}
"""Gradients from answers alone; "exact" asks a white box for them and is no estimate."""

IMAGE_STEP_SECONDS = 2.5e-3
"""one core's, of one image in one step of the generator at 32 x 32"""
STEPS_TO_ARRIVE = 14.3
"""steps that an image takes until it has arrived, on average; measured with EFFICIENT (results/reach)"""
COMPANY = 32
"""Images that go through the generator at least, arrived ones among them: BatchNorm needs the company."""

OnStep = Callable[[int, float, float, int], None]
"""on_step(step, mean objective, fraction of best images at their target, queries so far)"""


@dataclass(frozen=True, kw_only=True)
class RecoveryConfig:
    """How images are recovered from one API. The defaults cost what the paper's do; `PUBLISHED` has its very letter."""

    strategy: Literal["inversion", "pool", "extraction"] = "inversion"
    """the paper's generator against the API, the best of `pool` procedural images at one query each, or the best of
    those that an `extraction` of the API asked about"""
    extraction: ExtractionConfig = ExtractionConfig()
    pool: int = 1000
    """procedural images that strategy "pool" asks about for one set"""
    images_per_class: int = 30
    """images to recover for each class of the API"""
    steps: int = 200
    """updates of latent vectors and generator; each looks once at every image and estimates once"""
    lr: float = 1e-3
    """Adam's rate, for latent vectors and generator alike"""
    betas: tuple[float, float] = (0.5, 0.999)
    """Adam's memories of the gradient and of its square"""
    estimator: EstimatorName = "sphere"
    """where gradients come from: "sphere" is eq:estimation, "exact" needs a white box"""
    directions: int = 100
    """directions an estimate; each is one query an image, two for "antithetic", none for "exact" """
    radius: float = 5e-3
    """length of a probe in [0, 1] pixel space; 8-bit endpoints at 32x32 need about 0.5 to notice one"""
    resolution: int = 4
    """frequencies a side of the probes of "subspace", which then lie in channels * resolution^2 dimensions"""
    boundary: float = 1.0
    """weight of the student's disagreement in a boundary set (lambda of eq:adaptive)"""
    first: First = "api"
    """whose probabilities the KL of a boundary set averages over; by the letter of eq:adaptive the student's"""
    prefer_between: bool = True
    """of a boundary image's iterates keep one between the two boundaries before any of a smaller objective"""
    floor: float = 1e-6
    """probability below which the cross-entropy of an answer goes on as a straight line"""
    latent: int = 256
    """length of a latent vector"""
    filters: int = 64
    """width of the generator's last hidden layer"""
    early_stop: bool = False
    """ask no more about an image that has arrived (see `confidence`), and stop when all have"""
    confidence: float = 0.0
    """for `early_stop`: an image has arrived when the API names its target with at least this probability and, in a
    boundary set, the student does not"""
    limit: int | None = None
    """queries an image on average at which recovery ends, whatever `steps` says; None sets no limit. What images that
    arrive early leave over goes to the others"""

    def __post_init__(self) -> None:
        above_zero(self, "recovery", "pool", "images_per_class", "steps", "lr", "directions", "radius", "resolution")
        above_zero(self, "recovery", "latent", "filters", "floor")
        zero_or_more(self, "recovery", "boundary")
        if not 0 <= self.confidence < 1:
            raise ConfigError(f"recovery.confidence is a probability below 1, not {self.confidence}")
        if self.estimator != "exact" and self.estimator not in ESTIMATORS:
            raise ConfigError(f"unknown estimator {self.estimator!r}; choose one of {', '.join(ESTIMATORS)} or exact")
        if self.strategy == "extraction" and self.extraction.images < self.images_per_class:
            raise ConfigError(
                f"an extraction that asks about {self.extraction.images} images cannot give {self.images_per_class} of "
                "each class; raise recovery.extraction.rounds"
            )
        if self.limit is not None and self.limit < self.queries_per_step:
            raise ConfigError(
                f"recovery.limit must pay for one step, {self.queries_per_step} queries an image, not {self.limit}"
            )

    @property
    def length(self) -> int:
        """Steps that `on_step` tells of, at most."""
        return self.extraction.rounds if self.strategy == "extraction" else self.steps

    @property
    def queries_per_step(self) -> int:
        """What one image costs in one step: one query at itself, and its probes."""
        return 1 + {"exact": 0, "antithetic": 2}.get(self.estimator, 1) * self.directions

    def queries(self, way: int) -> int:
        """What one recovered set of an API with `way` classes costs; with `early_stop`, at most.

        steps * (directions + 1) * images_per_class * way, for all one-sided estimators and without a limit.
        """
        if self.strategy != "inversion":
            return self.pool if self.strategy == "pool" else self.extraction.queries
        cost = self.queries_per_step
        most = self.steps * cost if self.limit is None else min(self.steps * cost, self.limit)
        # Without early stop all images take part in every step, so the limit falls between two steps.
        return (most if self.early_stop else most // cost * cost) * self.images_per_class * way

    def expected_queries(self, way: int) -> int:
        """What one recovered set will probably cost: images that arrive early need no more."""
        most = self.queries(way)
        if self.strategy == "pool" or not self.early_stop:
            return most
        return min(most, round(STEPS_TO_ARRIVE * self.queries_per_step * self.images_per_class * way))

    def seconds(self, way: int) -> float:
        """What the generator takes of one core for one set, roughly, at 32 x 32."""
        if self.strategy != "inversion":
            return 0.0 if self.strategy == "pool" else self.extraction.seconds
        return self.steps * self.images_per_class * way * IMAGE_STEP_SECONDS

    def objective(self, api: BlackBox, targets: Tensor, student: StudentLogits | None) -> RecoveryObjective:
        """What is minimised to bring images to their `targets` (n,)."""
        return RecoveryObjective(
            api, targets, student=student, weight=self.boundary, first=self.first, floor=self.floor
        )

    @property
    def estimate(self) -> partial[GradientEstimate]:
        """The chosen estimator with its settings, to be called with what differs from step to step."""
        chosen = ESTIMATORS[self.estimator]
        if self.estimator == "subspace":
            chosen = partial(subspace, resolution=self.resolution)
        return partial(chosen, directions=self.directions, radius=self.radius)


PUBLISHED = RecoveryConfig(first="student", prefer_between=False, floor=1e-30)
"""As the text has it. It knows no floor: no answer comes near this one, and its logarithm exists."""

EFFICIENT = RecoveryConfig(
    steps=400,
    estimator="subspace",
    directions=4,
    radius=2.0,
    filters=32,
    early_stop=True,
    confidence=0.9,
    limit=200,
)
"""Images at their targets for at most 1/100 of the paper's price, through 8-bit images and rounded answers, too."""

AFFORDABLE = replace(EFFICIENT, images_per_class=20, steps=60)
"""Few queries, and not much of the generator's own time either, which is most of the time once queries are few."""


def invert(
    api: BlackBox,
    config: RecoveryConfig,
    *,
    rng: torch.Generator,
    student: StudentLogits | None = None,
    size: int | None = None,
    on_step: OnStep | None = None,
    device: torch.device | str = "cpu",
) -> RecoveredSet:
    """Images that the API gives the classes we ask for; with a `student`, a boundary set (eq:adaptive).

    Of every image the best iterate is kept (see `_Best`), with the answer the API gave to exactly that one, so nothing
    is asked twice. Images are `size` x `size`, by default as large as the API takes. All randomness comes from
    `rng`: after an `ApiError` the same call with the same stream asks the same questions again, in the same order.
    Everything is computed on `device`, where the student must be, in full precision: differences between answers to
    nearly equal images would not survive less.
    """
    spec = api.spec
    targets = torch.arange(spec.way, device=device).repeat_interleave(config.images_per_class)
    side = -(-max(spec.image[1:]) // 4) * 4 if size is None else size
    generator = Generator(rng=rng, size=side, channels=spec.image[0], filters=config.filters, latent=config.latent)
    generator.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]  # a fifth faster on the CPU
    z = torch.randn(len(targets), config.latent, generator=rng).to(device).requires_grad_()
    adam = torch.optim.Adam([z, *generator.parameters()], lr=config.lr, betas=config.betas)
    objective = config.objective(api, targets, student)
    best = _Best(targets, (spec.image[0], side, side), spec.way, prefer_between=config.prefer_between)
    queries, limit = 0, config.queries(spec.way)
    ours = torch.arange(len(targets), device=device)  # images on the way
    done = ours[:0]  # images that have arrived

    for step in range(config.steps):
        if queries + config.queries_per_step * len(ours) > limit:
            break
        company = torch.cat([ours, done])[: max(len(ours), COMPANY)]
        images: Tensor = generator(z[company])
        x = images.detach()[: len(ours)].contiguous()
        if spec.levels is not None:
            x = snap(x.clone(), spec.levels)  # the image that arrives; everything is measured from there
        here = objective.of(ours).at(x, exact=config.estimator == "exact")
        queries += len(x)
        best.update(ours, x, here)
        still = torch.arange(len(ours), device=device)
        if config.early_stop:
            arrived = best.sure(config.confidence) & (best.between | (student is None))
            still = (~arrived[ours]).nonzero().squeeze(1)
            done, ours, x, here = arrived.nonzero().squeeze(1), ours[still], x[still], here.of(still)
        gradient = here.gradient
        if gradient is None and len(ours) > 0:
            estimate = config.estimate(here, x, rng=rng, value=here.value, levels=spec.levels)
            gradient, queries = estimate.gradient, queries + estimate.queries
        if on_step is not None:
            on_step(step, best.value.mean().item(), best.reached.float().mean().item(), queries)
        if gradient is None or len(ours) == 0:
            break
        adam.zero_grad()
        # dL/dx comes from the answers, the rest of the chain from autograd.
        torch.autograd.backward(images, torch.zeros_like(images).index_copy_(0, still, gradient / len(targets)))
        adam.step()
    classes = tuple(ClassKey(spec.name, name) for name in spec.classes)
    return RecoveredSet(best.images, targets, best.probs, classes, queries)


class _Best:
    """The best iterate of every image so far, and what was said about it: that of the smallest objective.

    With `prefer_between`, one that the API gives its target and the student does not comes before all others. By value
    alone it never would: the indicator of eq:adaptive takes its reward away the moment an image crosses the student's
    boundary, so that the smallest values lie just outside of where the text wants the images to be.
    """

    def __init__(self, targets: Tensor, shape: tuple[int, int, int], way: int, *, prefer_between: bool) -> None:
        n, device, self.prefer_between = len(targets), targets.device, prefer_between
        self.targets, self.images = targets, torch.zeros(n, *shape, device=device)
        self.probs, self.value = torch.zeros(n, way, device=device), torch.full((n,), torch.inf, device=device)
        self.between = torch.zeros(n, dtype=torch.bool, device=device)

    def update(self, rows: Tensor, x: Tensor, here: Anchor) -> None:
        between = torch.zeros(len(rows), dtype=torch.bool, device=rows.device)
        if here.agree is not None:
            between = (here.probs.argmax(1) == self.targets[rows]) & ~here.agree
        better = here.value < self.value[rows]
        if self.prefer_between:
            was = self.between[rows]
            better = (between & ~was) | ((between == was) & better)
        rows = rows[better]
        self.images[rows], self.probs[rows] = x[better], here.probs[better]
        self.value[rows], self.between[rows] = here.value[better], between[better]

    @property
    def reached(self) -> Tensor:
        """(n,) whether the API names the target."""
        return self.probs.argmax(1) == self.targets

    def sure(self, confidence: float) -> Tensor:
        """(n,) whether it does so with at least this probability."""
        return self.reached & (self.probs.gather(1, self.targets[:, None])[:, 0] >= confidence)
