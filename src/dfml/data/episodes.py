"""N-way K-shot tasks from real images: one definition for all data sets."""

from collections.abc import Iterator

import torch
from torch import Generator

from dfml.data.image_set import ImageSet
from dfml.episode import Episode, EpisodeSpec
from dfml.errors import DataError
from dfml.rng import stream


def sample_episode(images: ImageSet, spec: EpisodeSpec, rng: Generator) -> Episode:
    """One random task: `way` classes, and of each `shot` + `query` different images."""
    check_enough(images, spec)
    classes = torch.randperm(len(images.classes), generator=rng)[: spec.way].tolist()
    support, query = [], []
    for chosen in classes:
        picked = torch.randperm(images.counts[chosen], generator=rng)[: spec.shot + spec.query]
        drawn = images.tensor(chosen, picked)
        support.append(drawn[: spec.shot])
        query.append(drawn[spec.shot :])
    labels = torch.arange(spec.way)
    return Episode(
        support=torch.cat(support),
        support_labels=labels.repeat_interleave(spec.shot),
        query=torch.cat(query),
        query_labels=labels.repeat_interleave(spec.query),
        classes=tuple(images.classes[chosen] for chosen in classes),
    )


def episodes(images: ImageSet, spec: EpisodeSpec, tasks: int, seed: int) -> Iterator[Episode]:
    """`tasks` tasks; task t depends on `seed` and t alone, so any order or number of workers gives the same ones."""
    check_enough(images, spec)
    return (sample_episode(images, spec, stream(seed, "episode", task)) for task in range(tasks))


def check_enough(images: ImageSet, spec: EpisodeSpec) -> None:
    """Refuse data that cannot fill every task, whatever classes are drawn."""
    if len(images.classes) < spec.way:
        raise DataError(
            f"{images.name}: the {images.part} part has {len(images.classes)} classes but a {spec.way}-way task needs "
            f"{spec.way}; lower the ways or add classes"
        )
    least = min(range(len(images.counts)), key=images.counts.__getitem__)
    if images.counts[least] < spec.shot + spec.query:
        raise DataError(
            f"{images.name}: class {images.classes[least]!r} of {images.part} has {images.counts[least]} images "
            f"but {spec.shot} shots and {spec.query} queries need {spec.shot + spec.query}; add images or ask for fewer"
        )
