"""Single-DFKD: one student imitates one API after another, and forgets as it goes. A baseline of the paper."""

from dfml.initialisation import Initialisation
from dfml.methods import Workplace
from dfml.methods.single_level import (
    ASKS_TOGETHER,
    NEEDS_WEIGHTS,
    PRESETS,
    SingleLevelConfig,
    cost,
    effort,
    expected,
    footprint,
    imitate,
    plan,
    recovered_sets,
)
from dfml.methods.students import statistics
from dfml.nets.functional import Net

__all__ = ["ASKS_TOGETHER", "NEEDS_WEIGHTS", "PRESETS", "cost", "effort", "expected", "footprint", "plan", "run"]


def run(config: SingleLevelConfig, place: Workplace) -> Initialisation:
    """theta <- the student of the next API, begun at theta (eq:inner, in sequence)."""
    net = Net(config.net.spec, mixed=place.hardware.mixed)
    params = config.net.begin(place.seed, device=place.hardware.device)
    seen = {}
    for turn in recovered_sets(config, place, method="single-dfkd"):
        params = imitate(net, params, turn.outcome, config.distil)
        seen = statistics(net, params, turn.outcome.images)
    return Initialisation(params, net.spec, seen)
