"""Four sizes of the same experiments: seconds, an evening, a night, and the paper's."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

ScaleName = Literal["smoke", "laptop", "workstation", "paper"]
Recipe = tuple[str | None, tuple[str, ...]]
"""a method's preset and settings"""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Everything that differs between sizes."""

    name: ScaleName
    dataset: str
    """where tasks and APIs come from unless --dataset says otherwise"""
    apis: int
    zoo: Mapping[str, Any] = field(default_factory=dict)
    """settings of the zoos, besides number and kind"""
    mixed: Mapping[str, Any] = field(default_factory=dict)
    """further settings of zoos with ResNets (tab:sh, tab:mh)"""
    mixed_apis: int = 9
    recipes: Mapping[str, Recipe] = field(default_factory=dict)
    """by method"""
    matched_shots: bool = False
    """learn anew for every column, with replay.shot of as many shots as it is tested with, as the paper does"""
    side: int = 0
    """pixels of a side of the meta model's images, on data sets whose own are larger; 0: those of most APIs"""
    seeds: int = 3
    tasks: int = 600
    reference_tasks: int = 600
    """tasks of rows that learn from no API, which the others are compared with"""
    lesser_seeds: int = 1
    """seeds of everything but tab:ss, tab:ablation and tab:zofo"""
    lesser_tasks: int = 600
    """tasks of everything but those three"""
    api_counts: tuple[int, ...] = (1, 10, 20, 30, 40, 50, 60, 70, 100)
    visits_per_api: int = 0
    """of BiDf-MKD where the number of APIs varies; 0: as many visits as its recipe says, whatever their number"""
    few_apis: int = 0
    """APIs on which tab:zofo also runs the paper's own estimator; 0 where that is the recipe already"""
    directions: tuple[int, ...] = (10, 50, 100, 150, 200)
    shots: tuple[int, ...] = (1, 5, 10, 20, 30, 40)
    limits: tuple[int, ...] = (100, 1_000, 10_000)
    """queries an image, for the curves over queries"""
    chorus_queries: tuple[int, ...] = (100, 500, 1_000, 5_000)
    extraction: tuple[str, ...] = ()
    """settings under which an extraction stands in for the recovery of a set"""


def _extraction(prefix: str, **settings: int) -> tuple[str, ...]:
    return tuple(f"{prefix}extraction.{name}={value}" for name, value in settings.items())


_TINY = ("recovery.images_per_class=4", "recovery.steps=3", "recovery.filters=8", "recovery.latent=16")
_SMALL_REPLAY = ("replay.shot=1", "replay.query=3", "replay.batch=2")
SMOKE = Scale(
    name="smoke",
    dataset="glyphs",
    apis=3,
    zoo={"width": 8, "epochs": 2, "images_per_class": 20},
    mixed={"width": 4},
    mixed_apis=3,
    recipes={
        "random": (None, ("net.width=8",)),
        "bidf-mkd": (None, (*_TINY, *_SMALL_REPLAY, "net.width=8", "schedule.visits=3", "schedule.iterations=5")),
        "white-box": (
            None,
            (*_TINY, *_SMALL_REPLAY, "net.width=8", "schedule.visits=3", "schedule.iterations=5"),
        ),
        "single-dfkd": (None, (*_TINY, "net.width=8", "distil.steps=3")),
        "distill-avg": (None, (*_TINY, "net.width=8", "distil.steps=3")),
        "chorus": (None, ("net.width=8", "queries=64", "distil.steps=20", "distil.batch=32")),
        "real-maml": (None, (*_SMALL_REPLAY, "net.width=8", "iterations=3")),
        "dfme": (None, (*_extraction("", rounds=2, batch=8, filters=8), "net.width=8")),
        "maze": (None, (*_extraction("", rounds=2, batch=8, filters=8), "net.width=8")),
        "model-fusion": (None, ("net.width=8", "fusion.steps=5")),
        "purer": (None, (*_SMALL_REPLAY, "net.width=8", "data.images_per_class=4", "iterations=3")),
        "free": (
            None,
            (
                *_SMALL_REPLAY,
                "net.width=8",
                "generator.images_per_class=10",
                "generator.filters=8",
                "generator.lr=0.01",
                "rounds=3",
                "warmup=1",
                "replays=1",
            ),
        ),
    },
    side=32,
    seeds=1,
    tasks=10,
    reference_tasks=10,
    lesser_tasks=10,
    api_counts=(1, 3),
    visits_per_api=1,
    directions=(2, 4),
    shots=(1, 5),
    limits=(10, 20),
    chorus_queries=(32, 64),
    extraction=_extraction("recovery.", rounds=2, batch=8, filters=8),
)

_RECOVERY = ("recovery.images_per_class=5", "recovery.filters=16", "recovery.lr=0.003")
_EXACT = (*_RECOVERY, "recovery.steps=60", "recovery.early_stop=true", "recovery.confidence=0.9")
_MEETING = ("schedule.visits=20", "schedule.iterations=100", "replay.query=5", "replay.batch=2")
LAPTOP = Scale(
    name="laptop",
    dataset="cifar-fs",
    apis=10,
    mixed={"width": 8, "images_per_class": 200},
    recipes={
        "random": (None, ()),
        "bidf-mkd": (None, (*_RECOVERY, *_MEETING)),
        "white-box": (None, (*_EXACT, *_MEETING)),
        "single-dfkd": (None, _RECOVERY),
        "distill-avg": (None, _RECOVERY),
        "chorus": (None, ("queries=1000", "distil.steps=1000")),
        "dfme": (None, _extraction("", rounds=25, batch=32, filters=16)),
        "maze": (None, _extraction("", rounds=25, batch=32, filters=16)),
        "model-fusion": (None, ()),
        "purer": (None, ("data.images_per_class=10", "iterations=100", "replay.query=5", "replay.batch=2")),
        "free": (
            None,
            (
                "generator.images_per_class=10",
                "generator.filters=16",
                "rounds=25",
                "warmup=5",
                "replays=4",
                "replay.query=5",
                "replay.batch=2",
            ),
        ),
        "real-maml": (None, ("iterations=400", "replay.query=10", "replay.batch=2", "replay.outer_lr=0.003")),
    },
    side=32,
    tasks=200,
    lesser_tasks=200,
    api_counts=(1, 5, 10, 20),
    visits_per_api=2,
    few_apis=2,
    directions=(2, 5, 10, 20),
    shots=(1, 5, 10, 20),
    limits=(12, 120),
    chorus_queries=(100, 300, 1_000),
    extraction=_extraction("recovery.", rounds=6, batch=32, filters=16),
)

PAPER = Scale(
    name="paper",
    dataset="cifar-fs",
    apis=100,
    mixed={"optimiser": "adam"},
    mixed_apis=100,
    matched_shots=True,
    recipes={
        "random": (None, ()),
        "bidf-mkd": ("paper", ()),
        "white-box": ("paper", ()),
        "single-dfkd": ("paper", ()),
        "distill-avg": ("paper", ()),
        "chorus": ("thorough", ()),
        "dfme": ("paper", ()),
        "maze": ("paper", ()),
        "model-fusion": (None, ()),
        "purer": ("paper", ()),
        "free": ("paper", ()),
        "real-maml": (None, ()),
    },
    lesser_seeds=3,
)

_HUNDRED = (
    "net.filter_length=0.15",
    "recovery.images_per_class=10",
    "recovery.steps=16",  # by then nearly all images of support sets have arrived; the rest costs more than it brings
    "schedule.visits=100",
    "schedule.visits_until=0.25",
    "schedule.iterations=900",
    "distil.outer_lr=0.0001",  # short filters turn fast
    "replay.outer_lr=0.0001",
    "replay.query=10",
    "replay.batch=2",
    "memory.merge_by_name=true",  # else tasks are solved by the colours that every generator has of its own
)
WORKSTATION = replace(
    LAPTOP,
    name="workstation",
    apis=100,
    recipes={
        **LAPTOP.recipes,
        "bidf-mkd": (None, (*_RECOVERY, *_HUNDRED)),
        "white-box": (None, (*_EXACT, *_HUNDRED)),
        "chorus": ("thorough", ()),
        "real-maml": (
            None,
            (
                "net.filter_length=0.15",  # short filters turn further in five steps
                "iterations=16000",
                "replay.first_order=true",
                "replay.outer_lr=0.0003",
                "replay.query=10",
                "replay.batch=2",
            ),
        ),
    },
    tasks=600,
    lesser_tasks=600,
    visits_per_api=1,
    api_counts=PAPER.api_counts,
)
"""The paper's hundred APIs, each visited once, by the recovery that can be afforded."""

SCALES: dict[str, Scale] = {scale.name: scale for scale in (SMOKE, LAPTOP, WORKSTATION, PAPER)}
