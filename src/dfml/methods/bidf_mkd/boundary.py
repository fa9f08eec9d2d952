"""The student of one API, against whose boundary a query set is recovered (eq:adaptive)."""

import torch

from dfml.meta.distil import Divergence, inner
from dfml.methods.bidf_mkd.settings import DistilConfig
from dfml.nets.functional import Net, Params
from dfml.recovery.frozen_student import frozen_student
from dfml.recovery.objectives import StudentLogits
from dfml.recovery.recovered import RecoveredSet


def boundary_student(
    net: Net, params: Params, support: RecoveredSet, config: DistilConfig, divergence: Divergence
) -> StudentLogits:
    """theta_i, distilled from the support set, begun at `params` (eq:inner).

    It is a function of one image, with the statistics of the support set for ever, or else (`config.statistics`)
    one of batches as large as the support set, each with its own.
    """
    fast = inner(
        net,
        params,
        support,
        lr=config.inner_lr,
        steps=config.inner_steps,
        first_order=True,
        divergence=divergence,
    )
    distilled = {name: p.detach() for name, p in fast.items()}
    if config.statistics == "support":
        return frozen_student(net, distilled, support.images)
    return lambda x: torch.cat([net(distilled, part) for part in x.split(len(support.images))])
