"""A recovered set without inversion: of many images that were asked about, those that suit their class best."""

from typing import NamedTuple

import torch
from torch import Generator, Tensor

from dfml.apis.blackbox import BlackBox
from dfml.errors import ConfigError
from dfml.images.prior import prior
from dfml.nets import NetSpec
from dfml.nets.functional import Net
from dfml.recovery.extraction import extract
from dfml.recovery.inversion import OnStep, RecoveryConfig, invert
from dfml.recovery.objectives import StudentLogits
from dfml.recovery.recovered import ClassKey, RecoveredSet


class Asked(NamedTuple):
    """Images that an API was asked about."""

    images: Tensor  # (n, c, h, w) in [0, 1]
    probs: Tensor  # (n, k) its answers
    queries: int  # those that led to these images included


def recover(
    api: BlackBox,
    config: RecoveryConfig,
    *,
    rng: Generator,
    size: int,
    student: StudentLogits | None = None,
    on_step: OnStep | None = None,
    device: torch.device | str = "cpu",
) -> RecoveredSet:
    """A set by whichever strategy `config` names, made on `device`, where the student must be."""
    if config.strategy == "inversion":
        return invert(api, config, rng=rng, student=student, size=size, on_step=on_step, device=device)
    if config.strategy == "extraction":
        asked = left_over(api, config, rng=rng, size=size, on_step=on_step, device=device)
    else:
        asked = drawn(api, config, rng=rng, size=size, device=device)
    return best_of(asked, api, config, student=student)


def drawn(
    api: BlackBox, config: RecoveryConfig, *, rng: Generator, size: int, device: torch.device | str = "cpu"
) -> Asked:
    """`config.pool` procedural images, asked about once each."""
    if config.pool < config.images_per_class:
        raise ConfigError(
            f"a pool of {config.pool} images cannot give {config.images_per_class} of each class; raise recovery.pool"
        )
    seed = int(torch.randint(2**62, (1,), generator=rng))
    images = prior(config.pool, seed=seed, size=size, channels=api.spec.image[0]).to(device).float() / 255
    with torch.no_grad():
        return Asked(images, api(images), config.pool)


def left_over(
    api: BlackBox,
    config: RecoveryConfig,
    *,
    rng: Generator,
    size: int,
    on_step: OnStep | None = None,
    device: torch.device | str = "cpu",
) -> Asked:
    """What an extraction asked about for its own sake; the clone is thrown away.

    That is what a meta-learner can use of DFME and MAZE.
    """
    net = Net(NetSpec(way=api.spec.way, size=size, channels=api.spec.image[0]))
    made = extract(api, net, net.init(rng, device=device), config.extraction, rng=rng, on_round=on_step)
    return Asked(made.images, made.probs, made.queries)


@torch.no_grad()
def best_of(asked: Asked, api: BlackBox, config: RecoveryConfig, *, student: StudentLogits | None) -> RecoveredSet:
    """For every class the images of the smallest objective.

    The objective is that of inversion, so with a `student` images between the two boundaries come first. A class that
    no image resembles gets the least unlike ones: `RecoveredSet.reached` tells.
    """
    images, probs, queries = asked
    agree = None if student is None else student(images).argmax(1) == probs.argmax(1)
    chosen, targets = [], []
    for target in range(api.spec.way):
        wanted = torch.full((len(images),), target, device=images.device)
        value = config.objective(api, wanted, student).values(probs, images, agree)
        chosen.append(value.argsort(stable=True)[: config.images_per_class])
        targets.append(wanted[: config.images_per_class])
    rows = torch.cat(chosen)
    classes = tuple(ClassKey(api.spec.name, name) for name in api.spec.classes)
    return RecoveredSet(images[rows], torch.cat(targets), probs[rows], classes, queries)
