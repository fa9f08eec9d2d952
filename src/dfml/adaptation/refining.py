"""What APIs said while predicting, distilled into the student: the longer a classifier is used, the less it asks."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from dfml.adaptation.kept import as_table, read_kept
from dfml.errors import ConfigError
from dfml.initialisation import Initialisation
from dfml.methods.chorus.asking import AnswerTable
from dfml.methods.chorus.student import ChorusDistilConfig, ChorusStudent
from dfml.methods.chorus.vocabulary import Vocabulary
from dfml.nets.functional import Net, normalise
from dfml.nets.statistics import batch_statistics, blend
from dfml.rng import stream
from dfml.runtime import cores, single_cores

FEWEST = 50
"""kept pictures below which nothing can be learned from them"""
LR = 1e-3
"""a quarter of the rate of learning: what the student knows already is to stay"""
STEPS_A_PICTURE, MOST_STEPS = 2, 2000
KEPT_SHARE = 0.5
"""how much the kept pictures' BatchNorm statistics count against those of learning"""


def refined(
    init: Initialisation,
    folder: Path,
    *,
    steps: int | None = None,
    seed: int = 0,
    on_step: Callable[[int, int, float], Any] = lambda done, total, loss: None,
) -> Initialisation:
    """`init` after learning from the pictures kept in the classifier's `folder` and the answers about them."""
    kept = list(read_kept(folder))
    count = sum(len(batch.images) for batch in kept)
    if count < FEWEST:
        raise ConfigError(
            f"{folder} keeps {count} pictures that APIs answered about, too few to learn from ({FEWEST}); "
            "use `dfml predict --ask SHARE --keep-images` for a while"
        )
    return distilled(init, as_table(kept), steps=steps, seed=seed, on_step=on_step)


def distilled(
    init: Initialisation,
    table: AnswerTable,
    *,
    steps: int | None = None,
    seed: int = 0,
    on_step: Callable[[int, int, float], Any] = lambda done, total, loss: None,
) -> Initialisation:
    """`init` after further learning from `table`."""
    total = steps or min(MOST_STEPS, STEPS_A_PICTURE * len(table.images))
    config = ChorusDistilConfig(steps=total, lr=LR, batch=min(128, len(table.images)), power=0.5)
    rng = stream(seed, "refine")
    with single_cores(cores()) as side_by_side:
        student = ChorusStudent(
            Net(init.net),
            init.params,
            table,
            config,
            vocabulary=Vocabulary.apart(table.ways.tolist()),
            rng=rng,
            side_by_side=side_by_side,
        )
        while student.step < total:
            loss = student.advance()
            on_step(student.step, total, loss)
    some = table.images[:512].float() / 255
    statistics = batch_statistics(init.net, student.params, normalise(some))
    if init.statistics:
        statistics = blend(statistics, init.statistics, KEPT_SHARE)
    before = init.provenance.get("taught_with", {}).get("pictures", 0)
    provenance = {**init.provenance, "taught_with": {"pictures": before + len(table.images)}}
    return Initialisation(student.params, init.net, statistics, provenance, expected=student.expected(some))
