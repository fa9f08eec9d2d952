"""Chorus under worse conditions: `python -m benchmarks.chorus_conditions ZOO WORK CONDITION... [--seed 0]`.

exact        the zoo as it is
labels-8bit  only the winning label, through 8-bit images
ten          the first ten APIs alone
ten+ten      those and ten useless or hostile ones: forests on noise, uniform, random, constant and shuffled answers
forests      fifteen scikit-learn forests trained on procedural images with random labels: what does not transfer

Leaves a run folder WORK/CONDITION-SEED for each, to be evaluated with `dfml evaluate`.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.as_measured import AS_MEASURED
from sklearn.ensemble import RandomForestClassifier

import dfml
from dfml.apis.blackbox import ApiSpec, BlackBox
from dfml.apis.degrade import LabelOnly, Quantised
from dfml.events import ApiWeighed
from dfml.images.prior import prior

CLASSES = ("a", "b", "c", "d", "e")
Answer = Callable[[Any], Any]


def made_up(name: str, answer: Answer) -> BlackBox:
    return dfml.FunctionApi(answer, ApiSpec(name=name, classes=CLASSES, image=(3, 32, 32)))


def forest(number: int) -> BlackBox:
    """A real classifier of something meaningless: procedural images under random labels."""
    rng = np.random.default_rng(number)
    images = prior(300, seed=1000 + number).numpy().reshape(300, -1) / 255
    trees = RandomForestClassifier(30, max_depth=8, random_state=number, n_jobs=1)
    trees.fit(images, np.concatenate([np.arange(5), rng.integers(5, size=295)]))
    return made_up(f"forest-{number}", lambda x: trees.predict_proba(x.reshape(len(x), -1)))


def hostile() -> list[BlackBox]:
    """Ten that nobody should listen to."""
    rng = np.random.default_rng(0)
    one_hot = np.eye(5)

    def constant(label: int) -> Answer:
        return lambda x: one_hot[np.full(len(x), label)]

    def shuffled(x: Any) -> Any:
        """A classifier by brightness whose labels change places from call to call."""
        level = np.minimum(x.mean((1, 2, 3)) * 5, 4).astype(int)
        return one_hot[rng.permutation(5)[level]]

    return [
        *(forest(number) for number in range(2)),
        *(made_up(f"uniform-{k}", lambda x: np.full((len(x), 5), 0.2)) for k in range(2)),
        *(made_up(f"random-{k}", lambda x: rng.dirichlet(np.ones(5), len(x))) for k in range(2)),
        *(made_up(f"constant-{k}", constant(k)) for k in range(2)),
        *(made_up(f"shuffled-{k}", shuffled) for k in range(2)),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("zoo", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("conditions", nargs="+")
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    zoo = dfml.load_apis(args.zoo)
    conditions: dict[str, Callable[[], list[BlackBox]]] = {
        "exact": lambda: zoo,
        "labels-8bit": lambda: [LabelOnly(Quantised(api)) for api in zoo],
        "ten": lambda: zoo[:10],
        "ten+ten": lambda: [*zoo[:10], *hostile()],
        "forests": lambda: [forest(number) for number in range(15)],
    }
    for name in args.conditions:

        def show(event: object) -> None:
            if isinstance(event, ApiWeighed) and event.weight == 0:
                print(f"{event.api} is left out", flush=True)

        settings = [f"queries={args.queries}", f"distil.steps={args.steps}", *AS_MEASURED]
        out = args.work / f"{name}-{args.seed}"
        dfml.learn(conditions[name](), out, settings=settings, seed=args.seed, resume=True, on_event=show)


if __name__ == "__main__":
    main()
