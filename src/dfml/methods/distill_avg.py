"""Distill-Avg: a student of each API, then the mean of their weights. A baseline of the paper."""

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
from dfml.methods.students import mean_student
from dfml.nets.functional import Net

__all__ = ["ASKS_TOGETHER", "NEEDS_WEIGHTS", "PRESETS", "cost", "effort", "expected", "footprint", "plan", "run"]


def run(config: SingleLevelConfig, place: Workplace) -> Initialisation:
    """theta = mean of theta_i, each distilled from its API alone (eq:inner)."""
    net = Net(config.net.spec, mixed=place.hardware.mixed)
    start = config.net.begin(place.seed, device=place.hardware.device)
    sets = (turn.outcome for turn in recovered_sets(config, place, method="distill-avg"))
    return mean_student(net, ((imitate(net, start, support, config.distil), support.images) for support in sets))
