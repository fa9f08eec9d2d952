"""How much less a live classifier has to ask after it has learned from what it asked:
`python -m benchmarks.refining RUN APIS CIFAR_FS --tasks 3 --out FILE`.

Each task has five validation classes of its own, five labelled pictures each. A classifier predicts picture after
picture of these classes, asks about each, keeps them, and is refined. What it then needs to ask is read off pictures
that it has never seen.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from dfml.adaptation.classifier import FewShotClassifier
from dfml.adaptation.kept import keep
from dfml.adaptation.refining import refined
from dfml.apis.ledger import Metered
from dfml.data import ImageSet, open_dataset
from dfml.evaluation.live import asked_through
from dfml.initialisation import Initialisation
from dfml.rng import stream
from dfml.runtime import keep_freed_memory

WAY, SHOT, TESTED = 5, 5, 60
WANTED = 0.75
PREDICTIONS = (0, 100, 300, 1000)
SHARES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


def share_needed(accuracies: Sequence[float]) -> float | None:
    """The share at which the accuracies, one for each of SHARES, reach what is wanted, on straight lines between."""
    if accuracies[0] >= WANTED:
        return 0.0
    for place in range(1, len(SHARES)):
        low, high = accuracies[place - 1], accuracies[place]
        if high >= WANTED:
            return SHARES[place - 1] + (WANTED - low) / (high - low) * (SHARES[place] - SHARES[place - 1])
    return None


def draw(images: ImageSet, classes: Sequence[int], task: int) -> tuple[Tensor, Tensor, Tensor]:
    """Support set, pictures of use in a random order, and pictures to test with; classes take turns in the first."""
    each = SHOT + TESTED + max(PREDICTIONS) // WAY
    drawn = []
    for chosen in classes:
        picked = torch.randperm(images.counts[chosen], generator=stream(0, "refining", task, chosen))[:each]
        drawn.append(images.tensor(chosen, picked))
    support, test, use = torch.stack(drawn).split([SHOT, TESTED, each - SHOT - TESTED], 1)
    order = torch.randperm(max(PREDICTIONS), generator=stream(0, "refining", task))
    return support.flatten(0, 1), use.flatten(0, 1)[order], test.flatten(0, 1)


def measure(
    init: Initialisation, apis: Sequence[Metered], parts: tuple[Tensor, Tensor, Tensor]
) -> list[dict[str, Any]]:
    """One row for each number of predictions."""
    support, use, test = parts
    classifier = FewShotClassifier(init, apis=apis, ask=1.0).fit(support, torch.arange(WAY).repeat_interleave(SHOT))
    labels, rows = torch.arange(WAY).repeat_interleave(TESTED), []
    with TemporaryDirectory() as folder:
        for before, count in zip((0, *PREDICTIONS), PREDICTIONS, strict=False):
            if count:
                outcome = classifier.set_params(ask=1.0).answer(use[before:count])
                keep(Path(folder), use[before:count], outcome, init.net)
                classifier.with_student(refined(init, Path(folder)))
            outcomes = [classifier.set_params(ask=share).answer(test) for share in SHARES]
            found = [(one.probabilities.argmax(1) == labels).float().mean().item() for one in outcomes]
            needed = share_needed(found)
            rows.append({
                "predictions": count,
                "accuracy": [round(100 * value, 2) for value in found],
                "share_needed": None if needed is None else round(needed, 3),
            })  # fmt: skip
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("apis", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--tasks", type=int, default=3)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    keep_freed_memory()
    images, init = open_dataset("cifar-fs", "val", data=args.data), Initialisation.load(args.run)
    order = torch.randperm(len(images.classes), generator=stream(0, "refining")).tolist()
    rows: dict[str, list[dict[str, Any]]] = {}
    with asked_through(args.apis, args.run / "refining", budget=None) as apis:
        for task in range(min(args.tasks, len(order) // WAY)):
            classes = order[WAY * task : WAY * (task + 1)]
            told = ", ".join(images.classes[chosen] for chosen in classes)
            rows[told] = measure(init, apis, draw(images, classes, task))
            table = {"wanted": 100 * WANTED, "shares": SHARES, "apis": [api.spec.name for api in apis], "tasks": rows}
            args.out.write_text(json.dumps(table, indent=2) + "\n")


if __name__ == "__main__":
    main()
