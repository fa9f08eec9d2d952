"""PURER (Hu et al. 2023): MAML on a data set inverted from the APIs' networks, made harder whenever MAML keeps up.

White-box. The images of all classes of all APIs are one tensor, learned along with the meta model: each iteration takes
a step of inversion on the images, then a step of MAML on tasks drawn from them. When MAML has not improved for a while
(`patience`), the next step of inversion also makes a task harder: the images climb its outer loss (episode curriculum
inversion).
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor

from dfml.apis.blackbox import ApiSpec, fit_to
from dfml.config import above_zero, zero_or_more
from dfml.episode import Episode
from dfml.errors import ConfigError
from dfml.events import LearningStarted, Replayed
from dfml.initialisation import Initialisation
from dfml.meta.adapt import adapt
from dfml.meta.replay import ReplayConfig, meta_gradient, replay_task
from dfml.meta.state import LearnerState
from dfml.methods import Workplace
from dfml.methods.bidf_mkd.plan import META_STEP_SECONDS
from dfml.methods.bidf_mkd.schedule import Plateau
from dfml.methods.footprint import LOADED, Footprint, activation_bytes, image_bytes
from dfml.methods.meta_model import MetaModelConfig
from dfml.methods.open_boxes import ASKS_TOGETHER, NEEDS_WEIGHTS, cost, expected, opened
from dfml.methods.students import statistics
from dfml.nets.functional import Net, Params
from dfml.recovery.known_statistics import InversionLossConfig, inversion_losses
from dfml.rng import stream
from dfml.runtime import cores

__all__ = ["ASKS_TOGETHER", "NEEDS_WEIGHTS", "PRESETS", "cost", "effort", "expected", "footprint", "plan", "run"]

CHECKPOINT_SECONDS = 20.0
IMAGE_SECONDS = 1e-3
"""one core's, of one image in one step of inversion at 32 x 32"""
DATA = "data"
"""the images' name among the parameters of a checkpoint"""


@dataclass(frozen=True, kw_only=True)
class DynamicDataConfig:
    """The images that are learned."""

    images_per_class: int = 20
    lr: float = 0.05
    """Adam's, in pixels of [0, 1]"""
    shift: int = 2
    """pixels by which they are moved, another way each step, before the network sees them"""
    loss: InversionLossConfig = InversionLossConfig()

    def __post_init__(self) -> None:
        above_zero(self, "data", "images_per_class", "lr")
        zero_or_more(self, "data", "shift")


@dataclass(frozen=True, kw_only=True)
class CurriculumConfig:
    """When tasks become harder, and by how much."""

    weight: float = 10.0
    """of a task's outer loss, which the images climb; 0: never"""
    patience: int = 6
    """meta-steps without a better accuracy before they do"""
    after: int = 0
    """meta-steps before the first time"""

    def __post_init__(self) -> None:
        zero_or_more(self, "curriculum", "weight", "patience", "after")


@dataclass(frozen=True, kw_only=True)
class PurerConfig:
    """Everything; each field is a `--set group.key=value`."""

    net: MetaModelConfig = MetaModelConfig()
    data: DynamicDataConfig = DynamicDataConfig()
    curriculum: CurriculumConfig = CurriculumConfig()
    replay: ReplayConfig = ReplayConfig()
    iterations: int = 1_000

    def __post_init__(self) -> None:
        if self.data.images_per_class < self.replay.shot + self.replay.query:
            raise ConfigError(
                f"data.images_per_class is {self.data.images_per_class}, but a task needs replay.shot + replay.query = "
                f"{self.replay.shot + self.replay.query} of each class; raise it, or lower those"
            )


PRESETS = {
    "default": PurerConfig(),
    "paper": PurerConfig(iterations=60_000, curriculum=CurriculumConfig(after=4_000)),
}


def plan(
    config: PurerConfig, specs: Sequence[ApiSpec], *, budget: int | None, budget_per_api: int | None
) -> PurerConfig:
    """Fill in the network's shape; refuse APIs that together have too few classes for a task."""
    net, classes = config.net.fitted(specs), sum(spec.way for spec in specs)
    if classes < net.way:
        raise ConfigError(f"a task has {net.way} classes and all APIs together {classes}; lower net.way or add APIs")
    return replace(config, net=net)


def effort(config: PurerConfig, specs: Sequence[ApiSpec]) -> float:
    """Seconds of one core: inversion of all images and one meta-step, again and again."""
    images = config.data.images_per_class * sum(spec.way for spec in specs)
    return config.iterations * (images * IMAGE_SECONDS + META_STEP_SECONDS)


def footprint(config: PurerConfig, specs: Sequence[ApiSpec]) -> Footprint:
    """All images, with gradient and moments, and one API's way through its network."""
    spec = config.net.spec
    images = config.data.images_per_class * sum(one.way for one in specs)
    largest = config.data.images_per_class * max(one.way for one in specs)
    kept = 4 * images * image_bytes(spec)
    return Footprint(LOADED + 5 * kept + largest * activation_bytes(spec), 3 * kept)


def run(config: PurerConfig, place: Workplace) -> Initialisation:
    """Learn theta and the images together; what the run folder holds already is taken up where it ended."""
    return _Purer(config, place).run()


class _Purer:
    """One run. Every iteration draws from streams of its own, so that any can be done again."""

    def __init__(self, config: PurerConfig, place: Workplace) -> None:
        self.config, self.place, self.device = config, place, place.hardware.device
        self.networks = list(opened(place.apis, method="purer").values())
        self.specs = [api.spec for api in place.apis]
        self.net = Net(config.net.spec, mixed=place.hardware.mixed)
        self.workers = min(cores(), config.replay.batch)
        if place.run.resumed and place.run.checkpoint.exists():
            self.state = LearnerState.load(place.run.checkpoint, device=self.device)
        else:
            theta = config.net.begin(place.seed, device=self.device)
            self.state = LearnerState.fresh(theta | {DATA: self._noise()}, {"best": 0.0, "since": 0})

    def run(self) -> Initialisation:
        """Inversion and MAML by turns."""
        self.place.emit(
            LearningStarted(
                method="purer",
                apis=len(self.specs),
                iterations=self.config.iterations,
                budget=self.place.budget,
                resumed_at=self.state.iteration,
            )
        )
        saved = time.monotonic()
        try:
            while self.state.iteration < self.config.iterations:
                self._iterate(self.state.iteration)
                if time.monotonic() - saved > CHECKPOINT_SECONDS:
                    self.state.save(self.place.run.checkpoint)
                    saved = time.monotonic()
        finally:  # also on Ctrl-C: an iteration that was cut off is done again
            self.state.save(self.place.run.checkpoint)
        few = self.state.params[DATA].flatten(0, 1)
        few = few[:: max(1, len(few) // 250)]
        return Initialisation(self.theta, self.net.spec, statistics(self.net, self.theta, few))

    @property
    def theta(self) -> Params:
        return {name: p for name, p in self.state.params.items() if name != DATA}

    def _iterate(self, iteration: int) -> None:
        cfg, rng = self.config.replay, stream(self.place.seed, "iteration", iteration)
        plateau = Plateau(self.config.curriculum.patience, self.state.notes["best"], self.state.notes["since"])
        harder = plateau.reached and iteration >= self.config.curriculum.after
        state = replace(self.state, notes=dict(self.state.notes))
        data = state.params[DATA]
        gradient = self._inversion_gradient(data, rng)
        if harder and self.config.curriculum.weight > 0:
            gradient = gradient - self.config.curriculum.weight * self._harder(data, rng)
            plateau = Plateau(plateau.patience)
        state.step({DATA: gradient}, lr=self.config.data.lr, steps=iteration)
        state.params[DATA] = state.params[DATA].clamp(0, 1)
        episodes = [self._task(state.params[DATA], rng) for _ in range(cfg.batch)]
        result = meta_gradient(
            self.net,
            self.theta,
            episodes,
            inner_lr=cfg.inner_lr,
            inner_steps=cfg.inner_steps,
            first_order=cfg.first_order,
            workers=self.workers,
        )
        state.step(result.grads, lr=cfg.outer_lr, steps=iteration)
        plateau.saw(result.accuracy)
        state.notes.update(best=plateau.best, since=plateau.since)
        state.iteration = iteration + 1
        self.state = state  # at once: what is cut off before has not happened
        self.place.emit(Replayed(iteration=iteration, loss=round(result.loss, 5), accuracy=round(result.accuracy, 4)))

    def _inversion_gradient(self, data: Tensor, rng: Generator) -> Tensor:
        """Of every API's inversion loss, in the images of its own classes."""
        reach, first = self.config.data.shift, 0
        parts: list[Tensor] = []
        for network, spec in zip(self.networks, self.specs, strict=True):
            images = data[first : first + spec.way].detach().requires_grad_()
            first += spec.way
            dx, dy = torch.randint(-reach, reach + 1, (2,), generator=rng).tolist()
            seen = fit_to(images.flatten(0, 1).roll((dy, dx), (2, 3)), spec.image)
            targets = torch.arange(spec.way, device=data.device).repeat_interleave(data.shape[1])
            loss = inversion_losses(network, seen, targets, self.config.data.loss)
            parts += torch.autograd.grad(loss, images)
        return torch.cat(parts)

    def _harder(self, data: Tensor, rng: Generator) -> Tensor:
        """The gradient of a task's outer loss in the images it is made of, through the inner loop."""
        leaf = data.detach().requires_grad_()
        task = replay_task(self.net, self._task(leaf, rng))
        cfg = self.config.replay
        adapted = adapt(self.theta, task.inner, lr=cfg.inner_lr, steps=cfg.inner_steps)
        (gradient,) = torch.autograd.grad(task.outer(adapted).loss, leaf)
        return gradient

    def _task(self, data: Tensor, rng: Generator) -> Episode:
        """Classes drawn over all APIs, then images of each; differentiable in `data` (classes, images, c, h, w)."""
        way, shot, query = self.config.net.way, self.config.replay.shot, self.config.replay.query
        classes = torch.randperm(len(data), generator=rng)[:way]
        rows = torch.stack([torch.randperm(data.shape[1], generator=rng)[: shot + query] for _ in classes])
        drawn = data[classes.to(data.device)[:, None], rows.to(data.device)]
        labels = torch.arange(way, device=data.device)
        return Episode(
            support=drawn[:, :shot].flatten(0, 1),
            support_labels=labels.repeat_interleave(shot),
            query=drawn[:, shot:].flatten(0, 1),
            query_labels=labels.repeat_interleave(query),
            classes=tuple(map(str, classes.tolist())),
        )

    def _noise(self) -> Tensor:
        """Where the images begin: (classes, images a class, c, h, w)."""
        spec = self.net.spec
        shape = (sum(one.way for one in self.specs), self.config.data.images_per_class)
        noise = torch.randn(*shape, spec.channels, spec.size, spec.size, generator=stream(self.place.seed, "data"))
        return (0.5 + 0.25 * noise).clamp(0, 1).to(self.device)
