"""A zoo: many classifiers trained on random tasks from real train classes, each behind the seam as an API."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from safetensors.torch import save_file
from torch import Tensor

from dfml.apis.manifest import ApiEntry, entry_spec, read_manifest, write_manifest
from dfml.apis.module import export_onnx
from dfml.bench.training import TrainConfig, accuracy, train
from dfml.config import to_mapping
from dfml.data import ImageSet, channel_statistics, open_dataset
from dfml.engine.pool import Progress, Report, side_by_side
from dfml.errors import ConfigError
from dfml.hardware import CPU, Hardware
from dfml.nets import Arch, NetSpec
from dfml.rng import derive_seed, stream

Scenario = Literal["ss", "sh", "mh"]
HETEROGENEOUS: tuple[Arch, ...] = ("conv4", "resnet10", "resnet18")
MULTIPLE = ("cifar-fs", "mini-imagenet", "cub")
HELD_OUT = 0.2
"""the part of a class's images that measures the reported accuracy: 120 of 600"""


@dataclass(frozen=True, kw_only=True)
class ZooConfig:
    """Everything that decides a zoo's weights."""

    scenario: Scenario = "ss"
    """one data set and one architecture; one data set, three architectures; three of both"""
    dataset: str = "glyphs"
    apis: int = 10
    way: int = 5
    arch: Arch = "conv4"
    width: int = 0
    """filters of the first layer; 0 takes the paper's for each architecture"""
    epochs: int = 10
    images_per_class: int | None = None
    """use only so many images of a class, to make weak APIs on purpose"""
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("apis", 1), ("way", 2), ("epochs", 0), ("width", 0), ("images_per_class", 5)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ConfigError(f"a zoo needs {name.replace('_', '-')} >= {least}, got {value}")


class Job(NamedTuple):
    """One API to train, as a worker process needs it."""

    name: str
    number: int
    dataset: str
    data: Path | None
    arch: Arch
    config: ZooConfig
    folder: Path
    hardware: Hardware = CPU


@dataclass(frozen=True)
class ZooStarted:
    """Event: what there is to do."""

    names: tuple[str, ...]
    """the APIs still to train"""
    total: int


@dataclass(frozen=True)
class ApiProgress:
    """Event: the fraction of one API's training that is done."""

    name: str
    done: float


@dataclass(frozen=True)
class ApiTrained:
    """Event: one more API is finished."""

    name: str
    accuracy: float


ZooEvent = ZooStarted | ApiProgress | ApiTrained


def build_zoo(
    folder: Path,
    config: ZooConfig,
    *,
    data: Path | None = None,
    workers: int | None = None,
    hardware: Hardware = CPU,
) -> Iterator[ZooEvent]:
    """Train what is missing of the zoo in `folder`, yielding events; the same config gives the same bits on a CPU."""
    jobs = [job._replace(hardware=hardware) for job in _plan(folder, config, data)]
    settings = to_mapping(config)
    entries = _trained_before(folder, settings)
    parts = {job.dataset: _train_part(job) for job in jobs}
    for part in parts.values():
        _check_tasks_fit(part, config)
    train_classes = {name: len(part.classes) for name, part in parts.items()}
    zoo = {**hardware.notes, "config": settings, "train_classes": train_classes}
    (folder / "apis").mkdir(parents=True, exist_ok=True)
    missing = [job for job in jobs if job.name not in entries]
    yield ZooStarted(tuple(job.name for job in missing), len(jobs))
    for event in side_by_side(train_api, missing, workers=hardware.workers(workers)):
        name = missing[event.index].name
        if isinstance(event, Progress):
            yield ApiProgress(name, event.done)
            continue
        entries[name] = event.result
        # In the order of the plan, whoever finished first: the file must not depend on the number of workers.
        planned = {job.name: entries[job.name] for job in jobs if job.name in entries}
        write_manifest(folder / "zoo.toml", planned, zoo=zoo)
        yield ApiTrained(name, event.result.accuracy or 0.0)


def train_api(job: Job, report: Report) -> ApiEntry:
    """Train one API and write its files; everything random comes from the zoo's seed and the API's index."""
    config, part = job.config, _train_part(job)
    seed = derive_seed(config.seed, "api", job.number)
    chosen = torch.randperm(len(part.classes), generator=stream(seed, "classes"))[: config.way].tolist()
    mean, std = map(torch.tensor, channel_statistics(part))
    train_images, train_labels, test_images, test_labels = _split(part, chosen, config.images_per_class)
    channels, size, _ = part.shape
    spec = NetSpec(arch=job.arch, way=config.way, size=size, channels=channels, width=config.width)
    net = train(
        spec,
        _normalise(train_images, mean, std),
        train_labels,
        TrainConfig(epochs=config.epochs, optimiser="adam" if job.arch == "conv4" else "sgd"),
        seed=seed,
        on_epoch=lambda epoch: report(epoch / config.epochs),
        hardware=job.hardware,
    )
    entry = ApiEntry(
        file=f"apis/{job.name}.onnx",
        weights=f"apis/{job.name}.safetensors",
        classes=tuple(part.classes[c] for c in chosen),
        image=part.shape,
        accuracy=round(accuracy(net, _normalise(test_images, mean, std), test_labels), 4),
        dataset=job.dataset,
        arch=job.arch,
        width=spec.width,
        seed=seed,
    )
    tensors = {name: tensor.cpu().contiguous() for name, tensor in net.state_dict().items()}
    save_file(tensors | {"mean": mean, "std": std}, job.folder / f"apis/{job.name}.safetensors")
    export_onnx(net, entry_spec(job.name, entry), job.folder / f"apis/{job.name}.onnx", mean=mean, std=std)
    return entry


def _plan(folder: Path, config: ZooConfig, data: Path | None) -> list[Job]:
    jobs = []
    for index in range(config.apis):
        dataset, arch, place = config.dataset, config.arch, data
        if config.scenario == "sh":
            arch = HETEROGENEOUS[index % 3]
        elif config.scenario == "mh":
            dataset, arch = MULTIPLE[index % 3], HETEROGENEOUS[index // 3 % 3]
            if data is None:
                raise ConfigError("scenario mh needs --data: a folder with cifar-fs/, mini-imagenet/ and cub/ in it")
            place = data / dataset
        jobs.append(Job(f"{dataset}-{index:03d}", index, dataset, place, arch, config, folder))
    return jobs


def _trained_before(folder: Path, settings: dict[str, Any]) -> dict[str, ApiEntry]:
    """The APIs that an earlier, interrupted build with the same settings left."""
    if not (folder / "zoo.toml").exists():
        return {}
    entries, zoo = read_manifest(folder / "zoo.toml")
    before = zoo.get("config", {})
    changed = sorted(key for key in settings.keys() | before.keys() if settings.get(key) != before.get(key))
    if changed:
        was = ", ".join(f"{key} = {before.get(key)}" for key in changed)
        raise ConfigError(f"{folder} holds a zoo built with other settings ({was}); repeat those or take another --out")
    return entries


def _train_part(job: Job) -> ImageSet:
    # Not with the zoo's seed: a folder without a split file must be split alike for every zoo and every evaluation.
    return open_dataset(job.dataset, "train", data=job.data)


def _check_tasks_fit(part: ImageSet, config: ZooConfig) -> None:
    if len(part.classes) < config.way:
        raise ConfigError(
            f"{part.name} has {len(part.classes)} train classes, too few for {config.way}-way APIs; lower --way"
        )


def _split(part: ImageSet, chosen: list[int], limit: int | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Train images and labels, then held-out ones."""
    kept = [split_class(part, c, limit) for c in chosen]
    return *_gather([train for train, _ in kept]), *_gather([test for _, test in kept])


def split_class(part: ImageSet, class_index: int, limit: int | None) -> tuple[Tensor, Tensor]:
    """Images of a class that an API is trained on, and those held out: the last fifth."""
    images = part.tensor(class_index)[:limit]
    held_out = max(1, round(len(images) * HELD_OUT))
    if len(images) - held_out < 2:
        raise ConfigError(
            f"{part.name}: class {part.classes[class_index]} has {len(images)} images, too few to train on"
        )
    return images[:-held_out], images[-held_out:]


def _gather(groups: list[Tensor]) -> tuple[Tensor, Tensor]:
    labels = torch.cat([torch.full((len(group),), label) for label, group in enumerate(groups)])
    return torch.cat(groups), labels


def _normalise(images: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    return (images - mean.view(1, -1, 1, 1)) / std.view(1, -1, 1, 1)
