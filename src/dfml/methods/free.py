"""FREE (Wei et al. 2024): a generator that learns to be adapted to any API in a few steps, and aligned distillation.

White-box. Each round draws some APIs. From the meta-generator, a few steps reach a generator for each of them; the
gradient where these end moves the meta-generator (first-order MAML). The recovered images go into the task memory. A
copy of theta imitates these APIs one after the other, and theta moves towards where the copy arrives: steps in sequence
favour directions in which the APIs' gradients agree. Then MAML replays tasks across the memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor
from torch.func import functional_call

from dfml.apis.blackbox import ApiSpec, fit_to
from dfml.config import above_zero
from dfml.episode import EpisodeSpec
from dfml.errors import ConfigError
from dfml.events import LearningStarted, Replayed, Visited
from dfml.images.generator import Generator
from dfml.initialisation import Initialisation
from dfml.losses import boundary, distillation_kl, target_nll
from dfml.meta.adam import AdamState, adam
from dfml.meta.memory import TaskMemory
from dfml.meta.replay import ReplayConfig, meta_gradient
from dfml.meta.state import LearnerState
from dfml.methods import Workplace
from dfml.methods.bidf_mkd.plan import META_STEP_SECONDS
from dfml.methods.footprint import Footprint, recovery_footprint
from dfml.methods.meta_model import MetaModelConfig
from dfml.methods.open_boxes import ASKS_TOGETHER, NEEDS_WEIGHTS, cost, expected, opened
from dfml.methods.students import statistics
from dfml.nets.functional import Net, Params, average, head_for
from dfml.recovery.inversion import IMAGE_STEP_SECONDS
from dfml.recovery.recovered import ClassKey, RecoveredSet
from dfml.rng import stream
from dfml.runtime import cores

__all__ = ["ASKS_TOGETHER", "NEEDS_WEIGHTS", "PRESETS", "cost", "effort", "expected", "footprint", "plan", "run"]

GENERATOR = "generator."
"""begins the names of the meta-generator's weights in a checkpoint"""
BETAS = (0.5, 0.999)
"""Adam's memories in a generator's few steps"""


@dataclass(frozen=True, kw_only=True)
class MetaGeneratorConfig:
    """How images are recovered."""

    images_per_class: int = 20
    steps: int = 5
    """from the meta-generator to a generator for one API"""
    lr: float = 1e-3
    """Adam's, of these steps and of the meta-generator"""
    boundary: float = 1.0
    """weight of the student's disagreement"""
    latent: int = 256
    filters: int = 64

    def __post_init__(self) -> None:
        above_zero(self, "generator", "images_per_class", "steps", "lr", "latent", "filters")


@dataclass(frozen=True, kw_only=True)
class FreeConfig:
    """Everything; each field is a `--set group.key=value`."""

    net: MetaModelConfig = MetaModelConfig()
    generator: MetaGeneratorConfig = MetaGeneratorConfig()
    replay: ReplayConfig = ReplayConfig()
    rounds: int = 100
    apis: int = 4
    """drawn each round"""
    warmup: int = 10
    """first rounds, in which the meta-generator learns alone"""
    replays: int = 10
    """meta-steps a round on tasks of the memory"""
    capacity: int = 20
    """recovered sets a class that the memory keeps"""
    require_agreement: bool = True
    """forget images that their own API does not give their class"""


PRESETS = {"default": FreeConfig(), "paper": FreeConfig(rounds=1_000, warmup=20, replay=ReplayConfig(batch=10))}


def plan(config: FreeConfig, specs: Sequence[ApiSpec], *, budget: int | None, budget_per_api: int | None) -> FreeConfig:
    """Fill in the network's shape; refuse tasks that the memory could never give."""
    if config.rounds <= config.warmup:
        raise ConfigError(
            f"all {config.rounds} rounds would be warm-up, and theta would stay as it is; raise rounds or lower warmup"
        )
    net, classes = config.net.fitted(specs), sum(spec.way for spec in specs)
    if classes < net.way:
        raise ConfigError(f"a task has {net.way} classes and all APIs together {classes}; lower net.way or add APIs")
    return replace(config, net=net)


def effort(config: FreeConfig, specs: Sequence[ApiSpec]) -> float:
    """Seconds of one core: the generators', and those of all meta-steps."""
    way = sum(spec.way for spec in specs) / len(specs)
    images = config.apis * config.generator.steps * config.generator.images_per_class * way
    return config.rounds * (images * IMAGE_STEP_SECONDS + (config.replays + 1) * META_STEP_SECONDS)


def footprint(config: FreeConfig, specs: Sequence[ApiSpec]) -> Footprint:
    """The memory of recovered sets."""
    sets = min(config.rounds * config.apis, config.capacity * len(specs))
    return recovery_footprint(
        config.net.spec, specs, cost(config, specs), sets=sets, images_per_class=config.generator.images_per_class
    )


def run(config: FreeConfig, place: Workplace) -> Initialisation:
    """Learn theta; what the run folder holds already is taken up where it ended."""
    return _Free(config, place).run()


class _Free:
    """One run. Every round draws from streams of its own, so that any can be done again."""

    def __init__(self, config: FreeConfig, place: Workplace) -> None:
        self.config, self.place, self.device = config, place, place.hardware.device
        self.networks = list(opened(place.apis, method="free").values())
        self.specs = [api.spec for api in place.apis]
        self.net = Net(config.net.spec, mixed=place.hardware.mixed)
        self.task = EpisodeSpec(way=config.net.way, shot=config.replay.shot, query=config.replay.query)
        self.workers = min(cores(), config.replay.batch)
        size, channels, shape = config.net.size, config.net.channels, config.generator
        self.generator = Generator(
            rng=stream(place.seed, "generator"),
            size=size,
            channels=channels,
            filters=shape.filters,
            latent=shape.latent,
        )
        self.generator.to(self.device)
        self.recovered = place.run.recovered
        self.recovered.mkdir(exist_ok=True)
        if place.run.resumed and place.run.checkpoint.exists():
            self.state = LearnerState.load(place.run.checkpoint, device=self.device)
        else:
            theta = config.net.begin(place.seed, device=self.device)
            begun = {GENERATOR + name: p.detach().clone() for name, p in self.generator.named_parameters()}
            self.state = LearnerState.fresh(theta | begun, {"steps": 0, "sets": 0})
        self.memory = TaskMemory(capacity_per_class=config.capacity, require_agreement=config.require_agreement)
        for number in range(self.state.notes["sets"]):
            self.memory.add(RecoveredSet.load(self._file(number)))

    def run(self) -> Initialisation:
        """All rounds, and a checkpoint after each."""
        self.place.emit(
            LearningStarted(
                method="free",
                apis=len(self.specs),
                iterations=self.config.rounds,
                budget=self.place.budget,
                resumed_at=self.state.iteration,
            )
        )
        while self.state.iteration < self.config.rounds:
            self.state = self._round(self.state.iteration)
            self.state.save(self.place.run.checkpoint)
        if not self.memory.ready(self.task):
            raise ConfigError(
                f"the APIs gave too few of the recovered images their class, so that {self.task.way} classes with "
                f"{self.task.shot + self.task.query} images each never came together; raise rounds, warmup, "
                "generator.steps or generator.images_per_class"
            )
        rng, theta = stream(self.place.seed, "statistics"), _theta(self.state)
        images = torch.cat([self.memory.sample(self.task, rng).query for _ in range(4)]).to(self.device)
        return Initialisation(theta, self.net.spec, statistics(self.net, theta, images))

    def _round(self, number: int) -> LearnerState:
        """The state after one more round."""
        config, rng = self.config, stream(self.place.seed, "round", number)
        state = replace(self.state, notes=dict(self.state.notes), iteration=number + 1)
        alone = number < config.warmup
        sets, gradients = [], []
        for index in torch.randperm(len(self.specs), generator=rng)[: config.apis].tolist():
            made, gradient = self._recover(index, None if alone else _theta(state), rng)
            sets.append(made)
            gradients.append(gradient)
            name, reached = self.specs[index].name, made.reached
            self.place.emit(Visited(iteration=number, api=name, queries=0, support_reached=reached, query_reached=0.0))
        state.step(average(gradients), lr=config.generator.lr, steps=number)
        if alone:
            return state
        for made in sets:
            made.save(self._file(state.notes["sets"]))
            self.memory.add(made)
            state.notes["sets"] += 1
        self._step(state, self._towards_agreement(_theta(state), sets))
        for _ in range(config.replays if self.memory.ready(self.task) else 0):
            self._replay(state, number, rng)
        return state

    def _recover(self, index: int, theta: Params | None, rng: torch.Generator) -> tuple[RecoveredSet, Params]:
        """Images of one API's classes, a few steps from the meta-generator, and the gradient where these end."""
        cfg, spec, network = self.config.generator, self.specs[index], self.networks[index]
        targets = torch.arange(spec.way, device=self.device).repeat_interleave(cfg.images_per_class)
        z = torch.randn(len(targets), cfg.latent, generator=rng).to(self.device)
        fast = {name: p for name, p in self.state.params.items() if name.startswith(GENERATOR)} | {"z": z}
        moments = AdamState.fresh(fast)
        for _ in range(cfg.steps):
            fast = {name: p.detach().requires_grad_() for name, p in fast.items()}
            weights = {name.removeprefix(GENERATOR): p for name, p in fast.items() if name != "z"}
            images: Tensor = functional_call(self.generator, weights, (fast["z"],))
            probs: Tensor = network(fit_to(images, spec.image))
            loss = self._wrong(probs, targets, images, theta).mean()
            grads = dict(zip(fast, torch.autograd.grad(loss, list(fast.values())), strict=True))
            fast, moments = adam(fast, grads, moments, lr=cfg.lr, betas=BETAS)
        classes = tuple(ClassKey(spec.name, name) for name in spec.classes)
        del grads["z"]
        return RecoveredSet(images.detach(), targets, probs.detach(), classes, 0), grads

    def _wrong(self, probs: Tensor, targets: Tensor, images: Tensor, theta: Params | None) -> Tensor:
        """What a generator minimises, image by image: an API that sees another class, a student that agrees with it."""
        if theta is None:
            return target_nll(probs, targets)
        with torch.no_grad():
            net, params = head_for(self.net, theta, probs.shape[1])
            logits = net(params, images)
        agree = logits.argmax(1) == probs.argmax(1)
        return boundary(probs, targets, logits, agree, weight=self.config.generator.boundary)

    def _towards_agreement(self, theta: Params, sets: Sequence[RecoveredSet]) -> Params:
        """theta minus where a copy of it arrives that imitates one API after the other."""
        copy, moments = theta, AdamState.fresh(theta)
        for made in sets:
            net, params = head_for(self.net, copy, len(made.classes))
            params = {name: p.detach().requires_grad_() for name, p in params.items()}
            loss = distillation_kl(net(params, made.images), made.probs)
            found = torch.autograd.grad(loss, list(params.values()), materialize_grads=True)
            # A head that was made for one API of another way is not part of theta and gets no step.
            grads = {
                name: g if g.shape == copy[name].shape else torch.zeros_like(copy[name])
                for name, g in zip(params, found, strict=True)
            }
            copy, moments = adam(copy, grads, moments, lr=self.config.replay.outer_lr)
        return {name: theta[name] - p for name, p in copy.items()}

    def _replay(self, state: LearnerState, number: int, rng: torch.Generator) -> None:
        cfg = self.config.replay
        episodes = [self.memory.sample(self.task, rng).on(self.device) for _ in range(cfg.batch)]
        result = meta_gradient(
            self.net,
            _theta(state),
            episodes,
            inner_lr=cfg.inner_lr,
            inner_steps=cfg.inner_steps,
            first_order=cfg.first_order,
            workers=self.workers,
        )
        self._step(state, result.grads)
        self.place.emit(Replayed(iteration=number, loss=round(result.loss, 5), accuracy=round(result.accuracy, 4)))

    def _step(self, state: LearnerState, grads: Params) -> None:
        state.step(grads, lr=self.config.replay.outer_lr, steps=state.notes["steps"])
        state.notes["steps"] += 1

    def _file(self, number: int) -> Path:
        return self.recovered / f"{number:05d}-support.safetensors"


def _theta(state: LearnerState) -> Params:
    return {name: p for name, p in state.params.items() if not name.startswith(GENERATOR)}
