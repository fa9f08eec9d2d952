"""`dfml demo`: from nothing to a classifier for a script that no API has ever seen, on the embedded glyphs."""

import argparse
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dfml.adaptation.heads import Head

APIS, SEED, TASKS = 6, 0, 200
SETTINGS = {
    "random": (),
    "bidf-mkd": ("recovery.images_per_class=10", "schedule.visits=3", "schedule.iterations=100"),
    "chorus": ("distil.steps=600",),
}
"""small enough for a few minutes on two cores"""
HEADS: "dict[str, tuple[Head, ...]]" = {
    "random": ("finetune", "prototype"),
    "bidf-mkd": ("finetune",),
    "chorus": ("prototype", "answers"),
}
"""what each is made for: MAML for being fine-tuned, chorus for being compared"""


def add(verbs: Any) -> None:
    demo = verbs.add_parser("demo", help="the whole way on embedded data, in a few minutes")
    demo.add_argument("--out", type=Path, default=Path("demo"), metavar="FOLDER")
    demo.set_defaults(run=run, computes=True)


def run(args: argparse.Namespace) -> None:
    from dfml.cli.drawing import console
    from dfml.cli.report import write_report
    from dfml.cli.zoo import build_with_progress, print_zoo
    from dfml.zoo.building import ZooConfig

    out: Path = args.out
    console.print(f"[bold]1. {APIS} APIs[/bold], each trained to tell 5 characters of Latin, Greek, Cyrillic, ...")
    build_with_progress(out / "zoo", ZooConfig(dataset="glyphs", apis=APIS, seed=SEED))
    print_zoo(out / "zoo")

    console.print("\n[bold]2. Learning from their answers alone[/bold], without a single real image")
    runs = [_learn(out / "zoo", out / method, method) for method in SETTINGS]

    console.print("\n[bold]3. Characters of scripts that no API knows[/bold], 5 classes, 1 or 5 examples each")
    _compare(runs)

    console.print("\n[bold]4. A classifier of your own[/bold], from five examples of each of five such characters")
    _adapt(out, out / "chorus")

    console.print("\n[bold]5. All of it on one page[/bold]")
    write_report([folder for _, folder, _ in runs], out / "report.html")


def _learn(zoo: Path, out: Path, method: str) -> tuple[str, Path, float]:
    from dfml.cli.learn import LearningProgress
    from dfml.learning import learn

    start = time.monotonic()
    with LearningProgress() as progress:
        learn(zoo, out, method=method, settings=SETTINGS[method], seed=SEED, resume=True, on_event=progress.show)
    return method, out, time.monotonic() - start


def _compare(runs: list[tuple[str, Path, float]]) -> None:
    from dfml.apis.ledger import spending
    from dfml.cli.drawing import console, table
    from dfml.cli.evaluate import measure
    from dfml.evaluation.metatest import TaskProtocol
    from dfml.evaluation.transductive import HeadConfig

    rows = []
    for method, folder, seconds in runs:
        measured = []
        for head in HEADS[method]:
            config = HeadConfig(head=head)
            protocols = [TaskProtocol(dataset="glyphs", shot=shot, tasks=TASKS, head=config) for shot in (1, 5)]
            results = measure(folder / "init.safetensors", protocols)
            measured += results
            accuracies = [f"{result['mean']:.1f} ± {result['ci95']:.1f} %" for result in results]
            rows.append((method, f"{spending(folder)['queries']:,}", f"{seconds:.0f}", head, *accuracies))
        (folder / "evaluation.json").write_text(json.dumps(measured, indent=2) + "\n")
    console.print(table(("method", "queries", "seconds", "head", "1-shot", "5-shot"), rows))


def _adapt(out: Path, run: Path) -> None:
    from dfml.cli.drawing import console
    from dfml.data import open_dataset, sample_episode
    from dfml.episode import EpisodeSpec
    from dfml.initialisation import Initialisation
    from dfml.rng import stream

    task = sample_episode(open_dataset("glyphs", "test"), EpisodeSpec(shot=5), stream(SEED, "demo"))
    labels = [task.classes[label] for label in task.support_labels.tolist()]
    classifier = Initialisation.load(run).adapt(task.support, labels)
    classifier.save(out / "classifier")
    right = classifier.score(task.query, [task.classes[label] for label in task.query_labels.tolist()])
    console.print(f"{', '.join(task.classes)}: {100 * right:.0f} % of {len(task.query)} further images are recognised")
    console.print(
        f"it is in {out / 'classifier'}, also as model.onnx; try `dfml predict {out / 'classifier'} IMAGE...`"
    )
