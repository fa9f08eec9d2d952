"""Random: an untrained network, the baseline that costs nothing."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dfml.apis.blackbox import BlackBox
from dfml.initialisation import Initialisation
from dfml.methods import Workplace
from dfml.methods.meta_model import MetaModelConfig
from dfml.nets.functional import Net
from dfml.rng import stream


@dataclass(frozen=True, kw_only=True)
class RandomConfig:
    """Nothing but the network."""

    net: MetaModelConfig = MetaModelConfig()


PRESETS = {"default": RandomConfig()}


def plan(
    config: RandomConfig, apis: Sequence[BlackBox], *, budget: int | None, budget_per_api: int | None
) -> RandomConfig:
    """Only the network's shape is open."""
    return replace(config, net=config.net.fitted(apis))


def cost(config: RandomConfig, apis: Sequence[BlackBox]) -> list[int]:
    """Nothing."""
    return [0] * len(apis)


def run(config: RandomConfig, place: Workplace) -> Initialisation:
    """No query at all."""
    spec = config.net.spec
    return Initialisation(Net(spec).init(stream(place.seed, "meta-model")), spec)
