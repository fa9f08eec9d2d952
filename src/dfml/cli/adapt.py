"""`dfml adapt [RUN] --support DIR [--ask APIS] --out CLF`: a classifier from a folder with a few images a class."""

import argparse
from pathlib import Path
from typing import Any

from dfml.cli.options import add_device, add_mirror, at_most, check_out


def add(verbs: Any) -> None:
    adapt = verbs.add_parser("adapt", help="make a classifier from a few labelled images")
    adapt.add_argument(
        "run_folder",
        type=Path,
        nargs="?",
        metavar="RUN",
        help="a run folder or init.safetensors; left out: APIs alone",
    )
    adapt.add_argument("--support", type=Path, required=True, metavar="DIR", help="one folder a class, any image size")
    adapt.add_argument(
        "--head",
        help="finetune, prototype, prototype+finetune or answers (default: answers if it can, else prototype)",
    )
    adapt.add_argument("--lr", type=float, default=0.01)
    adapt.add_argument("--steps", type=int, default=10)
    add_mirror(adapt)
    adapt.add_argument("--ask", type=Path, metavar="APIS", help="an apis.toml or zoo: ask these about the images, too")
    adapt.add_argument("--budget", type=int, metavar="QUERIES", help="with --ask: to all APIs together, never passed")
    add_device(adapt)
    adapt.add_argument("--out", type=Path, required=True, metavar="CLF")
    adapt.set_defaults(run=run, computes=True)


def run(args: argparse.Namespace) -> None:
    from dfml.adaptation.classifier import FewShotClassifier
    from dfml.adaptation.heads import HEADS
    from dfml.cli.drawing import console, progress_console
    from dfml.data.support import read_support
    from dfml.errors import ConfigError
    from dfml.initialisation import Initialisation

    if args.head is not None and args.head not in HEADS:
        raise ConfigError(f"unknown head {args.head!r}; choose one of {', '.join(HEADS)}")
    if args.run_folder is None and args.ask is None:
        raise ConfigError("adapt needs a run folder, APIs to ask (--ask apis.toml), or both")
    check_out(args.out)
    init = None if args.run_folder is None else Initialisation.load(args.run_folder)
    apis = None if args.ask is None else _open(args.ask)
    shapes = [] if init is None else [(init.net.channels, init.net.size, init.net.size)]
    shapes += [] if apis is None else [api.spec.image for api in apis]
    side, channels = max(max(shape[1:]) for shape in shapes), max(shape[0] for shape in shapes)
    images, labels = read_support(args.support, size=side, channels=channels)
    if apis is not None:
        from dfml.adaptation.asking import queries_to_fit

        most = at_most(queries_to_fit(labels, len(apis)), [api.spec.terms.price for api in apis])
        progress_console.print(f"asking {len(apis)} APIs about {len(labels)} images: {most}", soft_wrap=True)
    classifier = FewShotClassifier(
        init,
        head=args.head,
        lr=args.lr,
        steps=args.steps,
        mirror=args.mirror,
        device=args.device,
        apis=args.ask,
        budget=args.budget,
        folder=None if args.ask is None else args.out,
    ).fit(images, labels)
    onnx = classifier.save(args.out)
    shots = {name: labels.count(name) for name in classifier.classes_.tolist()}
    told = ", ".join(f"{name} ({count})" for name, count in shots.items())
    console.print(f"a classifier for {len(shots)} classes from {len(labels)} images: {told}")
    if init is not None and init.caveat:
        console.print(init.caveat)
    if apis is not None:
        _explain(classifier, args.out, console)
    anywhere = f", or load {onnx} anywhere" if onnx else ""
    console.print(f"use it with `dfml predict {args.out} IMAGE...`{anywhere}")
    if onnx is None and init is not None:
        console.print("without the package onnx no model.onnx was written; pip install 'dfml\\[onnx]' to have one")


def _open(manifest: Path) -> Any:
    from dfml.apis.loading import load_apis

    return load_apis(manifest)


def _explain(classifier: Any, out: Path, console: Any) -> None:
    """Who tells most about these classes, who failed, and what it cost."""
    from dfml.apis.ledger import spending
    from dfml.cli.drawing import table

    weights = classifier.api_weights_
    total = sum(weights.values()) or 1.0
    rows = [
        (name, classifier.failures_.get(name, f"{100 * weight / total:.0f} %"))
        for name, weight in sorted(weights.items(), key=lambda pair: -pair[1])
    ]
    console.print(table(("API", "what it tells of these classes"), rows))
    console.print(f"{spending(out)['queries']:,} queries so far, kept in {out / 'ledger'}")
