"""`dfml zoo build` trains APIs from real images, `dfml zoo show` prints what a zoo is worth."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dfml.cli.options import add_engine, add_hardware, chosen_hardware

if TYPE_CHECKING:
    from dfml.apis.manifest import Manifest
    from dfml.engine.choice import Engine
    from dfml.hardware import Hardware
    from dfml.zoo.building import ZooConfig


def add(verbs: Any) -> None:
    zoo = verbs.add_parser("zoo", help="train local APIs from a data set, or show them")
    actions = zoo.add_subparsers(dest="action", required=True, metavar="build|show")

    build = actions.add_parser("build", help="train N classifiers on random tasks of the train classes; resumes")
    build.add_argument("--dataset", default="glyphs", help="glyphs (embedded), cifar-fs, mini-imagenet, cub or folder")
    build.add_argument("--data", type=Path, help="where the data set lies; for --scenario mh the folder of all three")
    build.add_argument("--scenario", default="ss", choices=("ss", "sh", "mh"))
    build.add_argument("--apis", type=int, default=10, metavar="N")
    build.add_argument("--way", type=int, default=5, help="classes an API")
    build.add_argument("--arch", default="conv4", choices=("conv4", "resnet10", "resnet18"))
    build.add_argument("--width", type=int, default=0, help="filters of the first layer (default: the paper's)")
    build.add_argument("--epochs", type=int, default=10, help="fewer make weak APIs")
    build.add_argument("--optimiser", choices=("adam", "sgd"), help="default: Adam for Conv4, SGD for ResNets")
    build.add_argument("--images-per-class", type=int, help="fewer make weak APIs")
    build.add_argument("--seed", type=int, default=0)
    build.add_argument("--workers", type=int, help="APIs trained at once (default: one a core)")
    add_hardware(build)
    build.add_argument("--out", type=Path, required=True, metavar="ZOO")
    add_engine(build, "where APIs are trained; data and zoo stay on this machine")
    build.set_defaults(run=run_build, computes=True)

    show = actions.add_parser("show", help="accuracies and cover rate")
    show.add_argument("zoo", type=Path)
    show.add_argument("--json", action="store_true", help="print JSON and nothing else")
    show.add_argument("--plot", type=Path, metavar="FILE", help="write the histogram of accuracies (png, svg or pdf)")
    show.set_defaults(run=run_show, computes=False)


def run_build(args: argparse.Namespace) -> None:
    from dfml.config import from_mapping
    from dfml.engine.choice import open_engine
    from dfml.zoo.building import ZooConfig

    names = ("scenario", "dataset", "apis", "way", "arch", "width", "epochs", "optimiser", "images_per_class", "seed")
    config = from_mapping(ZooConfig, {name: getattr(args, name) for name in names}, where="dfml zoo build")
    hardware = chosen_hardware(args)
    with open_engine(args.engine, args.address) as engine:
        build_with_progress(args.out, config, data=args.data, workers=args.workers, hardware=hardware, engine=engine)
    print_zoo(args.out)


def build_with_progress(
    out: Path,
    config: "ZooConfig",
    *,
    data: Path | None = None,
    workers: int | None = None,
    hardware: "Hardware | None" = None,
    engine: "Engine | None" = None,
) -> None:
    """Build a zoo and draw a bar for it and for each API in training; those count for what they have done, too."""
    from dfml.cli.progress import Parts, progress_bars
    from dfml.hardware import CPU
    from dfml.zoo.building import ApiProgress, ApiTrained, ZooStarted, build_zoo

    with progress_bars() as bars:
        overall, parts, trained = bars.add_task("opening the data set", total=None), Parts(bars), 0
        events = build_zoo(out, config, data=data, workers=workers, hardware=hardware or CPU, engine=engine)
        for event in events:
            if isinstance(event, ZooStarted):
                trained = event.total - len(event.names)
                bars.update(overall, description="building the zoo", total=event.total, completed=trained)
            elif isinstance(event, ApiProgress):
                bars.update(overall, completed=trained + parts.show(event.name, event.done))
            elif isinstance(event, ApiTrained):
                trained += 1
                bars.update(overall, completed=trained + parts.end(event.name))


def run_show(args: argparse.Namespace) -> None:
    from dfml.apis.manifest import read_manifest

    manifest = read_manifest(args.zoo)
    if args.plot:
        from dfml.errors import ConfigError
        from dfml.zoo.histogram import accuracy_histogram, reported_accuracies

        figure = accuracy_histogram(reported_accuracies(manifest.entries))
        try:
            figure.savefig(args.plot)
        except (ValueError, OSError) as error:
            raise ConfigError(f"cannot write the plot to {args.plot}: {error}") from None
    if args.json:
        print(json.dumps(_summary(manifest), indent=2))
    else:
        print_zoo(args.zoo)


def _summary(manifest: "Manifest") -> dict[str, Any]:
    from dfml.zoo.coverage import cover_rate, mean_accuracy

    entries, zoo = manifest.entries, manifest.zoo
    return {
        "apis": [
            {
                "name": name,
                "classes": list(entry.classes),
                "accuracy": entry.accuracy,
                "arch": entry.arch,
                "width": entry.width,
                "dataset": entry.dataset,
                "image": list(entry.image),
            }
            for name, entry in entries.items()
        ],
        "mean_accuracy": mean_accuracy(entries),
        "cover_rate": cover_rate(entries, zoo),
        "config": zoo.get("config"),
    }


def print_zoo(path: Path) -> None:
    """The APIs, a histogram of their accuracies, and how many of the train classes they know."""
    from dfml.apis.manifest import read_manifest
    from dfml.cli.drawing import console, histogram, table
    from dfml.words import percent

    manifest = read_manifest(path)
    entries, summary = manifest.entries, _summary(manifest)
    rows = [
        (name, entry.dataset or "", entry.arch or "", percent(entry.accuracy), ", ".join(entry.classes))
        for name, entry in entries.items()
    ]
    console.print(table(("API", "data set", "network", "accuracy", "classes"), rows, shorten="classes"))
    console.print(histogram([entry.accuracy for entry in entries.values() if entry.accuracy is not None]))
    planned = manifest.zoo.get("config", {}).get("apis", len(entries))
    console.print(f"{len(entries)} of {planned} APIs, mean accuracy {percent(summary['mean_accuracy'])}")
    if summary["cover_rate"] is not None:
        console.print(f"cover rate {percent(summary['cover_rate'])}: the train classes that at least one API knows")
