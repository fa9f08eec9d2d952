"""The rows of `dfml bench real`: an untrained network, the student, each API alone, all of them, and asking live."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from dfml.adaptation.answer_features import api_weight, class_cosines, class_sums
from dfml.adaptation.classifier import FewShotClassifier
from dfml.apis.blackbox import BlackBox
from dfml.config import from_mapping, to_mapping
from dfml.episode import Episode
from dfml.errors import ConfigError, nearest
from dfml.evaluation.metatest import TaskProtocol, scorer
from dfml.evaluation.remembered import Remembered
from dfml.initialisation import Initialisation
from dfml.nets import NetSpec
from dfml.nets.answer_directions import answer_directions
from dfml.nets.functional import Net
from dfml.rng import stream

SHARES = (0.0, 0.1, 0.3, 0.5, 1.0)
"""queries a prediction that the live row may spend"""
MEANS = ("class-means",)


class Outcome(NamedTuple):
    """What became of one task."""

    right: float  # the fraction of its queries
    asked: int = 0  # questions about its queries, of all APIs


Trial = Callable[[Episode], Sequence[Outcome]]
"""adapt to a task's support set and predict its queries: an outcome for each of a row's heads"""


@dataclass(frozen=True, kw_only=True)
class RealTable:
    """What the table is made of, but for the APIs."""

    dataset: str
    part: Literal["val", "test"] = "val"
    way: int = 5
    shots: tuple[int, ...] = (1, 5)
    query: int = 15
    tasks: int = 300
    seed: int = 0

    def protocol(self, shot: int, head: str = "prototype") -> TaskProtocol:
        """The product's way to adapt: frozen statistics, so that a prediction depends on its image alone."""
        shared = {name: value for name, value in to_mapping(self).items() if name != "shots"}
        told = {**shared, "shot": shot, "head": {"head": head}, "inductive": True}
        return from_mapping(TaskProtocol, told, where="dfml bench real")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the table."""

    name: str
    label: str
    heads: tuple[str, ...]
    trial: Callable[[int], Trial]
    """shots -> what is done with a task"""
    apis: Sequence[Remembered] = ()
    """those that are asked when predicting"""
    weights: str = ""
    """a digest of the student's weights"""

    @property
    def kind(self) -> str:
        """What all rows of single APIs share."""
        return self.name.partition(":")[0]


def make_rows(table: RealTable, run: Path | None, apis: Sequence[Remembered]) -> list[Row]:
    """The rows there are for these APIs and, where there is one, for the run's student."""
    init = None if run is None else Initialisation.load(run)
    spec = NetSpec(arch="conv4", way=table.way, size=32, channels=3, width=32) if init is None else init.net
    untrained = Initialisation(Net(spec).init(stream(table.seed, "meta-model")), spec)
    rows = [student(table, untrained, ("prototype",), name="random", label="untrained")]
    if init is not None:
        label = f"the student, offline; learned from {init.provenance.get('queries', 0):,} answers"
        heads = ("prototype",) if init.expected is None else ("prototype", "answers")
        rows.append(student(table, init, heads, name="student", label=label))
    for api in apis:
        label = f"{api.spec.name} itself: {api.spec.way:,} classes, {api.spec.image[1]} pixels"
        rows.append(Row(name=f"api:{api.spec.name}", label=label, heads=MEANS, trial=partial(alone, api), apis=[api]))
    if len(apis) > 1:
        label = f"all {len(apis)}, each weighed by its answers about the support set"
        rows.append(Row(name="apis", label=label, heads=MEANS, trial=partial(together, apis), apis=apis))
    if init is not None:
        rows += [live(init, apis, learn=learn) for learn in (False, True)]
    return rows


def choose(rows: Sequence[Row], names: Sequence[str]) -> list[Row]:
    """Those that are named, or all."""
    known = list(dict.fromkeys(name for row in rows for name in (row.name, row.kind)))
    for name in names:
        if name not in known:
            raise ConfigError(f"there is no row {name!r} here; {nearest(name, known)}")
    return [row for row in rows if not names or {row.name, row.kind} & set(names)]


def student(table: RealTable, init: Initialisation, heads: tuple[str, ...], *, name: str, label: str) -> Row:
    """Offline, as the product predicts."""

    def trial(shot: int) -> Trial:
        scores = [scorer(init, table.protocol(shot, head)) for head in heads]
        return lambda episode: [Outcome(score(episode)) for score in scores]

    return Row(name=name, label=label, heads=heads, trial=trial, weights=weights_digest(init))


def weights_digest(init: Initialisation) -> str:
    """A short name for a student's weights, and for what it expects of its APIs."""
    tensors = {**init.params, **({} if init.expected is None else init.expected.state_dict())}
    return hashlib.sha256(b"".join(tensors[key].numpy().tobytes() for key in sorted(tensors))).hexdigest()[:16]


def alone(api: BlackBox, shot: int) -> Trial:
    """Class means in the space of one API's answers."""

    def trial(episode: Episode) -> list[Outcome]:
        way = len(episode.classes)
        cosines = class_cosines(
            answer_directions(api(episode.query)),
            class_sums(answer_directions(api(episode.support)), episode.support_labels, way),
        )
        return [Outcome(_right(cosines, episode), len(episode.query))]

    return trial


def together(apis: Sequence[BlackBox], shot: int) -> Trial:
    """The same with all APIs, each weighed by its answers about the support set.

    A weight needs two views a class, so where there is one image it is asked about a second time, mirrored.
    """

    def trial(episode: Episode) -> list[Outcome]:
        images, labels, way = episode.support, episode.support_labels, len(episode.classes)
        if shot == 1:
            images, labels = torch.cat([images, images.flip(-1)]), labels.repeat(2)
        total = torch.zeros(len(episode.query), way)
        for api in apis:
            answers = api(images)
            sums = class_sums(answer_directions(answers), labels, way)
            weight = api_weight(answers, labels, mirrored=shot == 1)
            total += weight * class_cosines(answer_directions(api(episode.query)), sums)
        return [Outcome(_right(total, episode), len(apis) * len(episode.query))]

    return trial


def live(init: Initialisation, apis: Sequence[Remembered], *, learn: bool) -> Row:
    """The student first; APIs are asked about a share of the images, those that it is least sure of."""

    def trial(shot: int) -> Trial:
        def outcomes(episode: Episode) -> list[Outcome]:
            classifier = FewShotClassifier(init, head="prototype", apis=apis, learn_from_answers=learn)
            classifier.fit(episode.support, episode.support_labels)
            told = [classifier.set_params(ask=share).answer(episode.query) for share in SHARES]
            return [Outcome(_right(each.probabilities, episode), int(each.asked.sum())) for each in told]

        return outcomes

    how = "answers about some images help to judge the others" if learn else "each image judged by itself"
    heads = tuple(f"ask {share:g}" for share in SHARES)
    label = f"the student, then APIs ({len(apis)}) where it is least sure; {how}"
    name = "live" if learn else "live-alone"
    return Row(name=name, label=label, heads=heads, trial=trial, apis=apis, weights=weights_digest(init))


def _right(scores: Tensor, episode: Episode) -> float:
    return (scores.argmax(1) == episode.query_labels).float().mean().item()
