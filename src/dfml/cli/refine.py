"""`dfml refine CLF`: what APIs said of kept pictures, distilled into the classifier, which then has to ask less."""

import argparse
from pathlib import Path
from typing import Any


def add(verbs: Any) -> None:
    refine = verbs.add_parser("refine", help="teach a live classifier what its APIs said while it predicted")
    refine.add_argument("classifier", type=Path, metavar="CLF", help="with pictures kept by dfml predict --keep-images")
    refine.add_argument("--steps", type=int, metavar="N", help="updates (default: as suits the number of pictures)")
    refine.add_argument("--seed", type=int, default=0)
    refine.set_defaults(run=run, computes=True)


def run(args: argparse.Namespace) -> None:
    from dfml.adaptation.classifier import FewShotClassifier
    from dfml.adaptation.refining import refined
    from dfml.cli.drawing import console
    from dfml.cli.progress import progress_bars
    from dfml.initialisation import Initialisation

    classifier = FewShotClassifier.load(args.classifier)
    with progress_bars() as bars:
        task = bars.add_task("refining", total=None)

        def show(done: int, total: int, loss: float) -> None:
            bars.update(task, completed=done, total=total, description=f"refining, objective {loss:.3f}")

        init = refined(
            Initialisation.load(args.classifier), args.classifier, steps=args.steps, seed=args.seed, on_step=show
        )
    classifier.with_student(init).save(args.classifier)
    pictures = init.provenance["taught_with"]["pictures"]
    console.print(f"{args.classifier} has learned from {pictures:,} pictures", soft_wrap=True)
    console.print("its network is not data-free any more: it was taught with pictures of your own")
