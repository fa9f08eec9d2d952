"""Distill-Avg: a student of each API, then the mean of their weights. A baseline of the paper."""

import torch

from dfml.initialisation import Initialisation
from dfml.methods import Workplace
from dfml.methods.single_level import (
    ASKS_TOGETHER,
    NEEDS_WEIGHTS,
    PRESETS,
    SingleLevelConfig,
    a_few,
    cost,
    effort,
    expected,
    footprint,
    imitate,
    plan,
    recovered_sets,
    statistics,
)
from dfml.nets.functional import Net, average

__all__ = ["ASKS_TOGETHER", "NEEDS_WEIGHTS", "PRESETS", "cost", "effort", "expected", "footprint", "plan", "run"]


def run(config: SingleLevelConfig, place: Workplace) -> Initialisation:
    """theta = mean of theta_i, each distilled from its API alone (eq:inner).

    All students begin at the same weights; the mean of networks that have nothing in common would be noise.
    """
    net = Net(config.net.spec, mixed=place.hardware.mixed)
    start = config.net.begin(place.seed, device=place.hardware.device)
    students, images = [], []
    for turn in recovered_sets(config, place, method="distill-avg"):
        students.append(imitate(net, start, turn.outcome, config.distil))
        images.append(a_few(turn.outcome.images))
    params = average(students)
    return Initialisation(params, net.spec, statistics(net, params, torch.cat(images)))
