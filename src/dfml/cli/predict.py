"""`dfml predict CLF IMAGES... [--ask SHARE]`: what an adapted classifier says, asking its APIs where it is unsure."""

import argparse
import json
from contextlib import closing
from pathlib import Path
from typing import Any

from dfml.cli.options import add_device, asked_share, at_most

TOGETHER = 1000
"""images that are judged together: a share is of these, and what APIs say of some helps to judge the others"""


def add(verbs: Any) -> None:
    predict = verbs.add_parser("predict", help="classify images with an adapted classifier")
    predict.add_argument("classifier", type=Path, metavar="CLF")
    predict.add_argument("images", type=Path, nargs="+", metavar="IMAGE", help="image files, or folders of them")
    predict.add_argument(
        "--ask",
        metavar="SHARE",
        help="queries an image, as 0.3, sent where the classifier is least sure; auto: where one is worth it "
        "(default: 0 where it can answer by itself, else 1)",
    )
    predict.add_argument("--budget", type=int, metavar="QUERIES", help="that CLF may cost in all, never passed")
    predict.add_argument("--apis", type=Path, metavar="APIS", help="the manifest, where it is not where it was")
    predict.add_argument(
        "--keep-images", action="store_true", help="keep the pictures that APIs were asked about, for dfml refine"
    )
    predict.add_argument("--json", action="store_true", help="print JSON and nothing else")
    add_device(predict)
    predict.set_defaults(run=run, computes=True)


def run(args: argparse.Namespace) -> None:
    from dfml.adaptation.classifier import FewShotClassifier
    from dfml.adaptation.kept import keep
    from dfml.apis.ledger import spending
    from dfml.cli.drawing import console, progress_console, table
    from dfml.data.support import find_images, read_files
    from dfml.words import percent

    settings = {"ask": asked_share(args.ask), "budget": args.budget, "apis": args.apis}
    classifier = FewShotClassifier.load(args.classifier, device=args.device, **settings)
    files = find_images(args.images)
    channels, height, width = classifier.image_shape
    live = classifier.api_weights_
    if live and not args.json:
        progress_console.print(_before(classifier, len(files)), soft_wrap=True)
    answers, queries, kept, failures = list[dict[str, Any]](), 0, 0, dict[str, str]()
    with closing(classifier):
        for start in range(0, len(files), TOGETHER):
            part = files[start : start + TOGETHER]
            images = read_files(part, size=max(height, width), channels=channels)
            told = classifier.answer(images)
            if args.keep_images:
                kept += keep(args.classifier, images.float() / 255, told, classifier.input_spec)
            queries, failures = queries + told.queries, failures | told.failures
            for path, row, asked in zip(part, told.probabilities.tolist(), told.asked.tolist(), strict=True):
                probabilities = dict(zip(map(str, classifier.classes_.tolist()), row, strict=True))
                label = max(probabilities, key=lambda name: probabilities[name])
                entry = {"image": str(path), "label": label, "probabilities": probabilities}
                if live:
                    entry["asked"] = [name for name, was in zip(live, asked, strict=True) if was]
                answers.append(entry)
    for reason in failures.values():
        progress_console.print(f"{reason}; going on without it", markup=False, soft_wrap=True)
    if live:
        alone = sum(not entry["asked"] for entry in answers)
        spent = spending(args.classifier)["queries"]
        progress_console.print(
            f"{queries:,} queries were sent ({spent:,} so far in all); {alone:,} of {len(answers):,} predictions are "
            "the classifier's own, without an API",
            soft_wrap=True,
        )
    if args.keep_images:
        progress_console.print(f"{kept:,} pictures are kept; `dfml refine {args.classifier}` learns from them")
    if args.json:
        print(json.dumps(answers, indent=2))
        return
    titles = ("image", "label", "probability", *(("asked",) if live else ()))
    rows = [
        (
            a["image"],
            a["label"],
            percent(a["probabilities"][a["label"]]),
            *((", ".join(a["asked"]) or "none",) if live else ()),
        )
        for a in answers
    ]
    console.print(table(titles, rows))


def _before(classifier: Any, images: int) -> str:
    """How much it can cost."""
    batches = [min(TOGETHER, images - start) for start in range(0, images, TOGETHER)]
    most = sum(classifier.most_queries(count) for count in batches)
    budget = "" if classifier.budget is None else f", and no more than {classifier.budget:,} in all"
    return f"{images:,} images: {at_most(most, _prices(classifier))}{budget}; answers on file cost nothing"


def _prices(classifier: Any) -> list[float | None]:
    """What its APIs ask for 1,000 images, as far as the manifest is there to tell."""
    from dfml.apis.manifest import read_manifest
    from dfml.errors import ConfigError

    try:
        entries = read_manifest(Path(classifier.apis)).entries
    except (ConfigError, TypeError):
        return []
    return [entries[name].price for name in classifier.api_weights_ if name in entries]
