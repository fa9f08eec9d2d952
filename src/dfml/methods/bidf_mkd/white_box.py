"""White-box DFML: BiDf-MKD with the APIs' true input gradients, the paper's upper bound. Needs a zoo's weights."""

from dataclasses import replace

from torch import Tensor

from dfml.apis.blackbox import WhiteBox
from dfml.apis.ledger import Metered
from dfml.errors import ConfigError
from dfml.initialisation import Initialisation
from dfml.methods import Workplace
from dfml.methods.bidf_mkd import learner
from dfml.methods.bidf_mkd.plan import cost, effort, expected, footprint, plan
from dfml.methods.bidf_mkd.settings import PAPER, RELEASED, BidfMkdConfig
from dfml.recovery.inversion import RecoveryConfig

__all__ = ["ASKS_TOGETHER", "NEEDS_WEIGHTS", "PRESETS", "cost", "effort", "expected", "footprint", "plan", "run"]

NEEDS_WEIGHTS, ASKS_TOGETHER = True, False
EXACT = RecoveryConfig(estimator="exact")
PRESETS = {
    "default": BidfMkdConfig(recovery=EXACT),
    "paper": replace(PAPER, recovery=replace(PAPER.recovery, estimator="exact")),
    "released": replace(RELEASED, recovery=replace(RELEASED.recovery, estimator="exact")),
}


class MeteredWhiteBox(Metered):
    """A metered API that also shows its gradients."""

    def differentiable(self, images: Tensor) -> Tensor:
        """Class probabilities (n, k) with their graph. Not metered: no endpoint sells gradients."""
        if not isinstance(self.api, WhiteBox):
            raise ConfigError(f"{self.spec.name} is a black box; the white-box bound needs a zoo with weights")
        return self.api.differentiable(images)


def run(config: BidfMkdConfig, place: Workplace) -> Initialisation:
    """As BiDf-MKD learns, from true gradients."""
    opened = [MeteredWhiteBox(api.api, api.ledger) for api in place.apis]
    return learner.run(config, replace(place, apis=opened), method="white-box")
