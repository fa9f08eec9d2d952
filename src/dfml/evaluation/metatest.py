"""Meta-test: an initialisation on many tasks of real, unseen classes."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from dfml.adaptation.heads import check_expected
from dfml.adaptation.student import SUPPORT_WEIGHT
from dfml.apis.blackbox import fit_to
from dfml.data import MULTIPLE, ImageSet, open_dataset
from dfml.data.episodes import sample_episode
from dfml.engine.pool import Finished, Report, WorkProgress, side_by_side
from dfml.episode import Episode, EpisodeSpec
from dfml.errors import ConfigError
from dfml.evaluation.accuracy import Accuracy, summarise
from dfml.evaluation.transductive import HeadConfig, task_accuracy
from dfml.hardware import CPU, Hardware
from dfml.initialisation import Initialisation
from dfml.nets.functional import Net
from dfml.rng import stream

CHUNK = 50
"""tasks a worker takes at a time"""


@dataclass(frozen=True, kw_only=True)
class TaskProtocol:
    """Which tasks, and how the initialisation adapts to them."""

    dataset: str = "glyphs"
    """a data set, or `mh` for tasks drawn equally from cifar-fs, mini-imagenet and cub"""
    part: Literal["val", "test"] = "test"
    way: int = 5
    shot: int = 5
    query: int = 15
    tasks: int = 600
    seed: int = 0
    head: HeadConfig = HeadConfig()
    inductive: bool = False
    """adapt with frozen statistics, as the product does, instead of those of the task's batch"""
    support_weight: float = SUPPORT_WEIGHT
    """inductive: how much the support set's statistics count against those of learning"""
    mirror: bool = True
    """inductive, with the head answers: whether an image and its mirror image show the same"""

    def __post_init__(self) -> None:
        if self.tasks < 1:
            raise ConfigError(f"an evaluation needs at least 1 task, got {self.tasks}")

    @property
    def effort(self) -> float:
        """Images that go through the network, one that is learned from counting thrice: what protocols differ by."""
        images = self.way * (self.shot + self.query)
        if "finetune" in self.head.head:
            images += 3 * self.head.steps * self.way * self.shot
        return float(self.tasks * images)


class Chunk(NamedTuple):
    """Some tasks of one meta-test, as a worker process needs them."""

    initialisation: Path
    protocol: TaskProtocol
    parts: Sequence[ImageSet]
    tasks: range
    hardware: Hardware = CPU


def meta_test(
    initialisation: Path,
    protocol: TaskProtocol,
    *,
    data: Path | None = None,
    workers: int | None = None,
    hardware: Hardware = CPU,
    on_task: Callable[[float], Any] = lambda tasks: None,
) -> Accuracy:
    """Accuracy over the protocol's tasks; task t is the same for every initialisation and any number of workers."""
    init = Initialisation.load(initialisation)
    check_expected(protocol.head.head, init.expected)
    parts = open_parts(protocol.dataset, protocol.part, data)  # once: to open a data set is to look at all its files
    for part in parts:  # complain before workers start
        sample_episode(part, _shape(protocol), stream(0))
    starts = range(0, protocol.tasks, CHUNK)
    chunks = [
        Chunk(initialisation, protocol, parts, range(start, min(start + CHUNK, protocol.tasks)), hardware)
        for start in starts
    ]
    fractions: dict[int, list[float]] = {}
    done = dict.fromkeys(range(len(chunks)), 0.0)
    for event in side_by_side(score_chunk, chunks, workers=hardware.workers(workers)):
        if isinstance(event, Finished):
            fractions[event.index] = event.result
        share = event.done if isinstance(event, WorkProgress) else 1.0
        done[event.index] = max(done[event.index], share * len(chunks[event.index].tasks))
        on_task(sum(done.values()))
    return summarise([value for index in range(len(chunks)) for value in fractions[index]])


def score_chunk(chunk: Chunk, report: Report) -> list[float]:
    """The accuracy on each task of a chunk."""
    init = Initialisation.load(chunk.initialisation)
    score = scorer(init, chunk.protocol, chunk.hardware)
    fractions = []
    for episode in _drawn(chunk.protocol, chunk.tasks, chunk.parts, input_shape(init)):
        fractions.append(score(episode))
        report(len(fractions) / len(chunk.tasks))
    return fractions


def input_shape(init: Initialisation) -> tuple[int, int, int]:
    """(channels, height, width) of the images that the network takes."""
    return init.net.channels, init.net.size, init.net.size


def scorer(init: Initialisation, protocol: TaskProtocol, hardware: Hardware = CPU) -> Callable[[Episode], float]:
    """What the protocol does with one task: adapt to its support set, and the accuracy on its queries."""
    net, head = Net(init.net, mixed=hardware.mixed), protocol.head
    init = init.on(hardware.device)

    def frozen(episode: Episode) -> float:
        classifier = init.adapt(
            episode.support,
            episode.support_labels,
            head=head.head,
            lr=head.lr,
            steps=head.steps,
            support_weight=protocol.support_weight,
            mirror=protocol.mirror,
            device=str(hardware.device),
        )
        return classifier.score(episode.query, episode.query_labels)

    def transductive(episode: Episode) -> float:
        return task_accuracy(net, init.params, episode.on(hardware.device), head, expected=init.expected)

    return frozen if protocol.inductive else transductive


def open_parts(dataset: str, part: str, data: Path | None) -> list[ImageSet]:
    """The image sets tasks are drawn from, in turn: one, or the three of `mh`."""
    if dataset != "mh":
        return [open_dataset(dataset, part, data=data)]
    if data is None:
        raise ConfigError("--dataset mh needs --data: a folder with cifar-fs/, mini-imagenet/ and cub/ in it")
    return [open_dataset(name, part, data=data / name) for name in MULTIPLE]


def draw_tasks(
    protocol: TaskProtocol, tasks: Iterable[int], *, data: Path | None, shape: tuple[int, int, int] | None = None
) -> Iterator[Episode]:
    """Some of the protocol's tasks by number; images are brought to `shape` (c, h, w), or left as they are."""
    return _drawn(protocol, tasks, open_parts(protocol.dataset, protocol.part, data), shape)


def _drawn(
    protocol: TaskProtocol, tasks: Iterable[int], parts: Sequence[ImageSet], shape: tuple[int, int, int] | None
) -> Iterator[Episode]:
    for task in tasks:
        rng = stream(protocol.seed, "meta-test", protocol.part, task)
        episode = sample_episode(parts[task % len(parts)], _shape(protocol), rng)
        if shape is not None:
            episode = episode._replace(support=fit_to(episode.support, shape), query=fit_to(episode.query, shape))
        yield episode


def describe(protocol: TaskProtocol, accuracy: Accuracy) -> dict[str, Any]:
    """One result with everything needed to repeat it."""
    return {
        "dataset": protocol.dataset,
        "part": protocol.part,
        "way": protocol.way,
        "shot": protocol.shot,
        "query": protocol.query,
        "tasks": protocol.tasks,
        "seed": protocol.seed,
        "head": protocol.head.head,
        "centre": protocol.head.centre,
        "lr": protocol.head.lr,
        "steps": protocol.head.steps,
        "statistics": "frozen" if protocol.inductive else "task",
        **({"support_weight": protocol.support_weight, "mirror": protocol.mirror} if protocol.inductive else {}),
        "mean": round(accuracy.mean, 3),
        "ci95": round(accuracy.ci95, 3),
    }


def _shape(protocol: TaskProtocol) -> EpisodeSpec:
    return EpisodeSpec(way=protocol.way, shot=protocol.shot, query=protocol.query)
