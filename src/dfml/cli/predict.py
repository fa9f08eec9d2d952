"""`dfml predict CLF IMAGES...`: what an adapted classifier says."""

import argparse
import json
from pathlib import Path
from typing import Any

from dfml.cli.options import add_device


def add(verbs: Any) -> None:
    predict = verbs.add_parser("predict", help="classify images with an adapted classifier")
    predict.add_argument("classifier", type=Path, metavar="CLF")
    predict.add_argument("images", type=Path, nargs="+", metavar="IMAGE", help="image files, or folders of them")
    predict.add_argument("--json", action="store_true", help="print JSON and nothing else")
    add_device(predict)
    predict.set_defaults(run=run, computes=True)


def run(args: argparse.Namespace) -> None:
    from dfml.adaptation.classifier import FewShotClassifier
    from dfml.cli.drawing import console, percent, table
    from dfml.data.support import read_images

    classifier = FewShotClassifier.load(args.classifier, device=args.device)
    spec = classifier.input_spec
    paths, images = read_images(args.images, size=spec.size, channels=spec.channels)
    answers: list[dict[str, Any]] = []
    for path, row in zip(paths, classifier.predict_proba(images).tolist(), strict=True):
        probabilities = dict(zip(map(str, classifier.classes_.tolist()), row, strict=True))
        label = max(probabilities, key=lambda name: probabilities[name])
        answers.append({"image": str(path), "label": label, "probabilities": probabilities})
    if args.json:
        print(json.dumps(answers, indent=2))
        return
    rows = [(a["image"], a["label"], percent(a["probabilities"][a["label"]])) for a in answers]
    console.print(table(("image", "label", "probability"), rows))
