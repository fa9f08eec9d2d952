"""Students of single APIs, and their mean: what methods with one student an API share."""

from collections.abc import Iterable

import torch
from torch import Tensor

from dfml.initialisation import Initialisation
from dfml.nets.functional import Net, Params, average, normalise
from dfml.nets.statistics import batch_statistics

A_FEW = 25
"""of one API's images, enough for statistics over all APIs"""


def mean_student(net: Net, taught: Iterable[tuple[Params, Tensor]]) -> Initialisation:
    """theta = mean of theta_i, each with the images (n, c, h, w) it learned from.

    All must have begun at the same weights; the mean of networks that have nothing in common would be noise.
    """
    students, images = [], []
    for student, seen in taught:
        students.append(student)
        images.append(seen[:: max(1, len(seen) // A_FEW)])
    params = average(students)
    return Initialisation(params, net.spec, statistics(net, params, torch.cat(images)))


def with_head(student: Params, params: Params) -> Params:
    """A student under the head of `params` where its own is of another number of classes; without a graph."""
    return {name: p.detach() if p.shape == params[name].shape else params[name] for name, p in student.items()}


def statistics(net: Net, params: Params, images: Tensor) -> dict[str, Tensor]:
    """What BatchNorm sees of recovered images (n, c, h, w)."""
    return batch_statistics(net.spec, params, normalise(images))
