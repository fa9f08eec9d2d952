"""Random: an untrained network, the baseline that costs nothing."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dfml.apis.blackbox import ApiSpec
from dfml.initialisation import Initialisation
from dfml.methods import Workplace
from dfml.methods.footprint import LOADED, Footprint
from dfml.methods.meta_model import MetaModelConfig


@dataclass(frozen=True, kw_only=True)
class RandomConfig:
    """Nothing but the network."""

    net: MetaModelConfig = MetaModelConfig()


PRESETS = {"default": RandomConfig()}
NEEDS_WEIGHTS = ASKS_TOGETHER = False


def plan(
    config: RandomConfig, specs: Sequence[ApiSpec], *, budget: int | None, budget_per_api: int | None
) -> RandomConfig:
    """Only the network's shape is open."""
    return replace(config, net=config.net.fitted(specs))


def cost(config: RandomConfig, specs: Sequence[ApiSpec]) -> list[int]:
    """Nothing."""
    return [0] * len(specs)


def expected(config: RandomConfig, specs: Sequence[ApiSpec]) -> list[int]:
    """The same: no answer changes what is asked."""
    return cost(config, specs)


def effort(config: RandomConfig, specs: Sequence[ApiSpec]) -> float:
    """Nothing."""
    return 0.0


def footprint(config: RandomConfig, specs: Sequence[ApiSpec]) -> Footprint:
    """The network alone."""
    return Footprint(LOADED, 1_000_000)


def run(config: RandomConfig, place: Workplace) -> Initialisation:
    """No query at all."""
    return Initialisation(config.net.begin(place.seed), config.net.spec)
