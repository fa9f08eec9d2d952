"""A zoo: many classifiers trained on random tasks from real train classes, each behind the seam as an API."""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from safetensors.torch import save

from dfml.apis.manifest import ApiEntry, read_manifest, write_manifest
from dfml.config import to_mapping
from dfml.data import MULTIPLE, ImageSet, open_dataset
from dfml.engine.choice import Engine, Local
from dfml.engine.pool import Report, WorkProgress
from dfml.errors import ConfigError
from dfml.files import write_whole
from dfml.hardware import CPU, Hardware
from dfml.nets import Arch, NetSpec
from dfml.nets.export import export_onnx
from dfml.rng import derive_seed, stream
from dfml.zoo.lessons import Lesson, draw_lesson
from dfml.zoo.training import TrainConfig, accuracy, train

Scenario = Literal["ss", "sh", "mh"]
HETEROGENEOUS: tuple[Arch, ...] = ("conv4", "resnet10", "resnet18")


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
    optimiser: Literal["adam", "sgd"] | None = None
    """of all networks: the text says Adam; None: Adam for Conv4 and SGD for ResNets, as in the released code"""
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
    hardware: Hardware = CPU
    lesson: Lesson | None = None
    """None where the worker can read the data set itself"""


class Trained(NamedTuple):
    """One trained API and its files."""

    entry: ApiEntry
    weights: bytes
    onnx: bytes


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
    engine: Engine | None = None,
) -> Iterator[ZooEvent]:
    """Train what is missing of the zoo in `folder`, yielding events; the same config gives the same bits on a CPU.

    Only this process needs to see the data and the folder.
    """
    jobs = [job._replace(hardware=hardware) for job in _plan(config, data)]
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
    engine = engine or Local()
    for event in engine.side_by_side(train_api, missing, workers=hardware.workers(workers), equip=equip):
        name = missing[event.index].name
        if isinstance(event, WorkProgress):
            yield ApiProgress(name, event.done)
            continue
        entry, weights, onnx = event.result
        write_whole(folder / (entry.weights or ""), weights)
        write_whole(folder / (entry.file or ""), onnx)
        entries[name] = entry
        # In the order of the plan, in whatever order they finished: the file must not depend on the number of workers.
        planned = {job.name: entries[job.name] for job in jobs if job.name in entries}
        write_manifest(folder / "zoo.toml", planned, zoo=zoo)
        yield ApiTrained(name, entry.accuracy or 0.0)


def train_api(job: Job, report: Report) -> Trained:
    """Train one API; everything random comes from the zoo's seed and the API's index."""
    config, lesson = job.config, job.lesson or _lesson(job)
    seed = _seed(job)
    mean, std = torch.tensor(lesson.mean), torch.tensor(lesson.std)
    train_images, train_labels, test_images, test_labels = lesson.split()
    channels, size, _ = lesson.shape
    spec = NetSpec(arch=job.arch, way=config.way, size=size, channels=channels, width=config.width)
    net = train(
        spec,
        train_images,
        train_labels,
        TrainConfig(epochs=config.epochs, optimiser=config.optimiser or ("sgd" if spec.residual else "adam")),
        seed=seed,
        on_epoch=lambda epoch: report(epoch / config.epochs),
        hardware=job.hardware,
    )
    entry = ApiEntry(
        file=f"apis/{job.name}.onnx",
        weights=f"apis/{job.name}.safetensors",
        classes=lesson.classes,
        image=lesson.shape,
        accuracy=round(accuracy(net, test_images, test_labels), 4),
        dataset=job.dataset,
        arch=job.arch,
        width=spec.width,
        seed=seed,
    )
    tensors = {name: tensor.cpu().contiguous() for name, tensor in net.state_dict().items()}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "net.onnx"
        export_onnx(net, file, name=job.name, classes=entry.classes, image=entry.image, mean=mean, std=std)
        onnx = file.read_bytes()
    return Trained(entry, save(tensors | {"mean": mean, "std": std}), onnx)


def _lesson(job: Job) -> Lesson:
    config = job.config
    return draw_lesson(
        _train_part(job), way=config.way, limit=config.images_per_class, rng=stream(_seed(job), "classes")
    )


def equip(job: Job) -> Job:
    """`job` for a worker that cannot read the data set."""
    return job._replace(lesson=_lesson(job))


def _seed(job: Job) -> int:
    return derive_seed(job.config.seed, "api", job.number)


def mixture(number: int) -> tuple[str, Arch]:
    """Data set and architecture of an API of scenario mh: each of the nine pairs once among nine in a row."""
    return MULTIPLE[number % 3], HETEROGENEOUS[number // 3 % 3]


def _plan(config: ZooConfig, data: Path | None) -> list[Job]:
    jobs = []
    for index in range(config.apis):
        dataset, arch, place = config.dataset, config.arch, data
        if config.scenario == "sh":
            arch = HETEROGENEOUS[index % 3]
        elif config.scenario == "mh":
            dataset, arch = mixture(index)
            if data is None:
                raise ConfigError("scenario mh needs --data: a folder with cifar-fs/, mini-imagenet/ and cub/ in it")
            place = data / dataset
        jobs.append(Job(f"{dataset}-{index:03d}", index, dataset, place, arch, config))
    return jobs


def _trained_before(folder: Path, settings: dict[str, Any]) -> dict[str, ApiEntry]:
    """The APIs that an earlier, interrupted build with the same settings left."""
    if not (folder / "zoo.toml").exists():
        return {}
    manifest = read_manifest(folder / "zoo.toml")
    before = manifest.zoo.get("config", {})
    changed = sorted(key for key in settings.keys() | before.keys() if settings.get(key) != before.get(key))
    if changed:
        was = ", ".join(f"{key} = {before.get(key)}" for key in changed)
        raise ConfigError(f"{folder} holds a zoo built with other settings ({was}); repeat those or take another --out")
    return manifest.entries


def _train_part(job: Job) -> ImageSet:
    # Not with the zoo's seed: a folder without a split file must be split alike for every zoo and every evaluation.
    return open_dataset(job.dataset, "train", data=job.data)


def _check_tasks_fit(part: ImageSet, config: ZooConfig) -> None:
    if len(part.classes) < config.way:
        raise ConfigError(
            f"{part.name} has {len(part.classes)} train classes, too few for {config.way}-way APIs; lower --way"
        )
