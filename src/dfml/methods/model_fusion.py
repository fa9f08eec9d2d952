"""Model fusion (Wang et al. 2022): one network that predicts the weights of all APIs, and from it an initialisation.

White-box, and for APIs of the meta model's own architecture. Each API i has an embedding e_i, and F turns it into
weights; both are learned so that the worst embedding near e_i still gives API i's weights w_i:

    min over F, e   mean_i  max over e'   |F(e') - w_i|^2 - penalty * |e' - e_i|^2

That is a Wasserstein ball around the embeddings, in its Lagrangian form. The initialisation is F at their mean.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from dfml.apis.blackbox import ApiSpec
from dfml.config import above_zero
from dfml.errors import ConfigError
from dfml.events import LearningStarted, Step
from dfml.initialisation import Initialisation
from dfml.methods import Workplace
from dfml.methods.footprint import LOADED, Footprint
from dfml.methods.meta_model import MetaModelConfig
from dfml.methods.open_boxes import ASKS_TOGETHER, NEEDS_WEIGHTS, cost, expected, opened
from dfml.nets import NetSpec
from dfml.nets.export import EndToEnd
from dfml.nets.functional import STD, Net, Params
from dfml.rng import stream

__all__ = ["ASKS_TOGETHER", "NEEDS_WEIGHTS", "PRESETS", "cost", "effort", "expected", "footprint", "plan", "run"]

STEP_SECONDS = 1e-3
"""one core's, of one API in one step"""
NEARBY = 0.1
"""how far from an embedding the search for the worst one begins"""


@dataclass(frozen=True, kw_only=True)
class FusionConfig:
    """How weights are predicted from embeddings."""

    embedding: int = 16
    """numbers an API"""
    hidden: int = 64
    """width of the predicting network"""
    steps: int = 300
    lr: float = 0.01
    penalty: float = 0.01
    """for moving an embedding; the smaller, the further the worst one may lie"""
    worst_steps: int = 3
    """towards the worst embedding"""

    def __post_init__(self) -> None:
        above_zero(self, "fusion", "embedding", "hidden", "steps", "lr", "penalty")


@dataclass(frozen=True, kw_only=True)
class ModelFusionConfig:
    """The network, and how it is fused."""

    net: MetaModelConfig = MetaModelConfig()
    fusion: FusionConfig = FusionConfig()


PRESETS = {"default": ModelFusionConfig()}


def plan(
    config: ModelFusionConfig, specs: Sequence[ApiSpec], *, budget: int | None, budget_per_api: int | None
) -> ModelFusionConfig:
    """Only the network's shape is open."""
    return replace(config, net=config.net.fitted(specs))


def effort(config: ModelFusionConfig, specs: Sequence[ApiSpec]) -> float:
    """Seconds of one core: the predictions of all steps, those of the ascent among them."""
    return config.fusion.steps * (1 + config.fusion.worst_steps) * len(specs) * STEP_SECONDS


def footprint(config: ModelFusionConfig, specs: Sequence[ApiSpec]) -> Footprint:
    """The predicting network, with its gradient and Adam's moments, and the weights of all APIs."""
    weights = sum(shape.numel() for shape in Net(config.net.spec).shapes.values())
    return Footprint(LOADED + 4 * weights * (4 * config.fusion.hidden + 4 * len(specs)), 1_000_000)


def run(config: ModelFusionConfig, place: Workplace) -> Initialisation:
    """No image at all, so no statistics of any."""
    place.emit(
        LearningStarted(
            method="model-fusion", apis=len(place.apis), iterations=config.fusion.steps, budget=place.budget
        )
    )
    spec, device = config.net.spec, place.hardware.device
    start = config.net.begin(place.seed, device=device)
    networks = [
        fitting(name, network, spec, start) for name, network in opened(place.apis, method="model-fusion").items()
    ]

    def on_step(step: int, loss: float) -> None:
        place.emit(Step(stage="fusing", done=step, total=config.fusion.steps, objective=loss))

    fused = fuse(networks, config.fusion, rng=stream(place.seed, "fusion"), on_step=on_step)
    return Initialisation(fused.params, spec)


def fitting(name: str, network: EndToEnd, spec: NetSpec, start: Params) -> Params:
    """The weights of an API's network, as a meta model that sees pixels in its own way computes the same with them.

    A head for another number of classes gives way to that of `start`; any other difference in shape is refused. Pixels
    are scaled as the meta model scales them. That they are also shifted otherwise does not matter: BatchNorm with the
    statistics of its batch cancels it, but for the padding.
    """
    params = {key: p.detach().clone() for key, p in network.net.named_parameters()}
    shapes = {key: p.shape for key, p in start.items()}
    body = {key: shape for key, shape in shapes.items() if not key.startswith("head.")}
    if {key: p.shape for key, p in params.items() if not key.startswith("head.")} != body:
        raise ConfigError(
            f"{name}: its network is no {spec.arch} of width {spec.width} for {spec.channels} channels; model-fusion "
            "needs APIs of the meta model's own shape: choose such ones, or set net.arch and net.width to theirs"
        )
    first = next(key for key, shape in shapes.items() if len(shape) == 4)
    params[first] *= STD / network.std
    return {key: p if p.shape == shapes[key] else start[key] for key, p in params.items()}


class Fused(NamedTuple):
    """What came of many networks."""

    params: Params  # the initialisation
    rebuilt: list[Params]  # what is predicted for each of them


def fuse(
    networks: Sequence[Params],
    config: FusionConfig,
    *,
    rng: Generator,
    on_step: Callable[[int, float], None] = lambda step, loss: None,
) -> Fused:
    """One network out of many of one shape.

    F predicts how weights differ from their mean, in units of each tensor's own spread between networks, and begins at
    no difference: equal networks are fused into themselves.
    """
    flat = torch.stack([torch.cat([p.flatten() for p in network.values()]) for network in networks])
    mean = flat.mean(0)
    sizes = [p.numel() for p in networks[0].values()]
    spread = torch.cat([(flat - mean).split(sizes, 1)[i].square().mean().sqrt().expand(n) for i, n in enumerate(sizes)])
    spread = torch.where(spread > 0, spread, torch.ones_like(spread))
    wanted = (flat - mean) / spread

    def drawn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=rng).to(flat)

    embeddings = drawn(len(networks), config.embedding).requires_grad_()
    inward = (drawn(config.embedding, config.hidden) * config.embedding**-0.5).requires_grad_()
    outward = torch.zeros(config.hidden, flat.shape[1]).to(flat).requires_grad_()

    def misfit(e: Tensor) -> Tensor:
        errors: Tensor = (e @ inward).tanh() @ outward - wanted
        return errors.square().mean(1)

    optimiser = torch.optim.Adam([embeddings, inward, outward], lr=config.lr)
    for step in range(config.steps):
        away = NEARBY * drawn(len(networks), config.embedding)  # at e itself there may be no slope
        for _ in range(config.worst_steps):
            there = (embeddings + away).detach().requires_grad_()
            (uphill,) = torch.autograd.grad(misfit(there).sum(), there)
            away = uphill / (2 * config.penalty)  # where the slope and that of the penalty are equal
        loss = misfit(embeddings + away).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        on_step(step, loss.item())

    def weights(e: Tensor) -> Params:
        vector = mean + spread * ((e @ inward).tanh() @ outward)
        return {name: part.view_as(p) for (name, p), part in zip(networks[0].items(), vector.split(sizes), strict=True)}

    with torch.no_grad():
        return Fused(weights(embeddings.mean(0)), [weights(e) for e in embeddings])
