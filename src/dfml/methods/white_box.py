"""White-box DFML: BiDf-MKD with the APIs' true input gradients, the paper's upper bound. Needs a zoo's weights."""

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from dfml.apis.blackbox import BlackBox, WhiteBox
from dfml.apis.ledger import Metered
from dfml.errors import ConfigError
from dfml.initialisation import Initialisation
from dfml.methods import Workplace, bidf_mkd
from dfml.methods.bidf_settings import PAPER, RELEASED, BidfMkdConfig
from dfml.recovery.inversion import RecoveryConfig

NEEDS_WEIGHTS = True
EXACT = RecoveryConfig(estimator="exact")
PRESETS = {
    "default": BidfMkdConfig(recovery=EXACT),
    "paper": replace(PAPER, recovery=EXACT),
    "released": replace(RELEASED, recovery=EXACT),
}


class Open(Metered):
    """A metered API that also shows its gradients."""

    def differentiable(self, images: Tensor) -> Tensor:
        """Not metered: nobody sells gradients."""
        if not isinstance(self.api, WhiteBox):
            raise ConfigError(f"{self.spec.name} is a black box; the white-box bound needs a zoo with weights")
        return self.api.differentiable(images)


def plan(
    config: BidfMkdConfig, apis: Sequence[BlackBox], *, budget: int | None, budget_per_api: int | None
) -> BidfMkdConfig:
    """As BiDf-MKD plans."""
    return bidf_mkd.plan(config, apis, budget=budget, budget_per_api=budget_per_api)


def cost(config: BidfMkdConfig, apis: Sequence[BlackBox]) -> list[int]:
    """As BiDf-MKD, with no query for a gradient."""
    return bidf_mkd.cost(config, apis)


def run(config: BidfMkdConfig, place: Workplace) -> Initialisation:
    """As BiDf-MKD learns, with its eyes open."""
    opened = [Open(api.api, api.ledger) for api in place.apis]
    return bidf_mkd.run(config, replace(place, apis=opened))
