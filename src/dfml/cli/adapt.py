"""`dfml adapt RUN --support DIR --out CLF`: a classifier from a folder with a few images a class."""

import argparse
from pathlib import Path
from typing import Any

from dfml.cli.options import add_device


def add(verbs: Any) -> None:
    adapt = verbs.add_parser("adapt", help="make a classifier from a few labelled images")
    adapt.add_argument("run_folder", type=Path, metavar="RUN", help="a run folder or an init.safetensors")
    adapt.add_argument("--support", type=Path, required=True, metavar="DIR", help="one folder a class, any image size")
    adapt.add_argument(
        "--head",
        help="finetune, prototype, prototype+finetune or answers (default: answers if it can, else prototype)",
    )
    adapt.add_argument("--lr", type=float, default=0.01)
    adapt.add_argument("--steps", type=int, default=10)
    add_device(adapt)
    adapt.add_argument("--out", type=Path, required=True, metavar="CLF")
    adapt.set_defaults(run=run, computes=True)


def run(args: argparse.Namespace) -> None:
    from dfml.adaptation.heads import HEADS
    from dfml.cli.drawing import console
    from dfml.data.support import read_support
    from dfml.errors import ConfigError
    from dfml.initialisation import Initialisation

    if args.head is not None and args.head not in HEADS:
        raise ConfigError(f"unknown head {args.head!r}; choose one of {', '.join(HEADS)}")
    init = Initialisation.load(args.run_folder)
    if args.out.exists() and any(args.out.iterdir()) and not (args.out / "classifier.safetensors").exists():
        raise ConfigError(f"{args.out} holds other files; choose another --out")
    images, labels = read_support(args.support, size=init.net.size, channels=init.net.channels)
    classifier = init.adapt(images, labels, head=args.head, lr=args.lr, steps=args.steps, device=args.device)
    classifier.save(args.out)
    shots = {name: labels.count(name) for name in classifier.classes_.tolist()}
    told = ", ".join(f"{name} ({count})" for name, count in shots.items())
    console.print(f"a classifier for {len(shots)} classes from {len(labels)} images: {told}")
    console.print(f"use it with `dfml predict {args.out} IMAGE...`, or load {args.out / 'model.onnx'} anywhere")
