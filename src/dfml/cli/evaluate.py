"""`dfml evaluate RUN`: few-shot accuracy on the unseen classes of a data set."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dfml.cli.options import add_hardware, add_mirror, chosen_hardware

if TYPE_CHECKING:
    from dfml.evaluation.metatest import TaskProtocol
    from dfml.hardware import Hardware
    from dfml.initialisation import Initialisation


def add(verbs: Any) -> None:
    evaluate = verbs.add_parser("evaluate", help="few-shot accuracy of an initialisation on unseen classes")
    evaluate.add_argument("run_folder", type=Path, metavar="RUN", help="a run folder or an init.safetensors")
    evaluate.add_argument("--dataset", default="glyphs", help="glyphs, cifar-fs, mini-imagenet, cub, folder or mh")
    evaluate.add_argument("--data", type=Path, help="where the data set lies")
    evaluate.add_argument("--part", default="test", choices=("test", "val"), help="choose on val, report on test")
    evaluate.add_argument("--way", type=int, default=5)
    evaluate.add_argument("--shot", type=int, nargs="+", default=[1, 5])
    evaluate.add_argument("--tasks", type=int, default=600)
    evaluate.add_argument(
        "--head",
        nargs="+",
        help="finetune, prototype, prototype+finetune, answers (default: finetune; with --ask that of `dfml adapt`)",
    )
    evaluate.add_argument("--lr", type=float, default=0.01, help="rate of fine-tuning")
    evaluate.add_argument("--steps", type=int, default=10, help="steps of fine-tuning")
    evaluate.add_argument("--centre", action="store_true", help="prototype, answers: subtract the task's mean feature")
    evaluate.add_argument("--inductive", action="store_true", help="frozen statistics, as `dfml adapt` makes them")
    evaluate.add_argument("--support-weight", type=float, help="inductive: the support set's share of the statistics")
    add_mirror(evaluate)
    evaluate.add_argument(
        "--ask", type=Path, metavar="APIS", help="also ask these about the images: a live classifier, in one process"
    )
    evaluate.add_argument(
        "--ask-share",
        type=float,
        nargs="+",
        default=[0.0, 0.1, 0.3, 0.5, 1.0],
        metavar="SHARE",
        help="with --ask: queries a prediction (default: 0 .1 .3 .5 1)",
    )
    evaluate.add_argument("--budget", type=int, metavar="QUERIES", help="with --ask: to all APIs together")
    evaluate.add_argument(
        "--each-alone", action="store_true", help="with --ask: answers about some images do not help to judge others"
    )
    evaluate.add_argument("--seed", type=int, default=0, help="which tasks are drawn")
    evaluate.add_argument("--workers", type=int, help="processes (default: one a core)")
    add_hardware(evaluate)
    evaluate.add_argument("--json", nargs="?", const="-", metavar="FILE", help="write JSON to FILE, or print it alone")
    evaluate.set_defaults(run=run, computes=True)


def run(args: argparse.Namespace) -> None:
    from dfml.cli.drawing import console, table
    from dfml.config import from_mapping
    from dfml.errors import ConfigError
    from dfml.evaluation.metatest import TaskProtocol

    path = args.run_folder / "init.safetensors" if args.run_folder.is_dir() else args.run_folder
    if args.json not in (None, "-") and not Path(args.json).parent.is_dir():
        raise ConfigError(f"{Path(args.json).parent} does not exist; make it first, or choose another --json")
    protocols = [
        from_mapping(
            TaskProtocol,
            {
                "head": {"head": head, "lr": args.lr, "steps": args.steps, "centre": args.centre},
                "shot": shot,
                **{key: getattr(args, key) for key in ("dataset", "part", "way", "tasks", "seed")},
                "inductive": args.inductive or args.ask is not None,
                "mirror": args.mirror,
                **({} if args.support_weight is None else {"support_weight": args.support_weight}),
            },
            where="dfml evaluate",
        )
        for head in args.head or ["prototype" if args.ask else "finetune"]
        for shot in args.shot
    ]
    if args.ask is None:
        results = measure(path, protocols, data=args.data, workers=args.workers, hardware=chosen_hardware(args))
    else:
        results = measure_live(path, protocols, args)
    text = json.dumps(results, indent=2)
    if args.json == "-":
        print(text)
        return
    if args.json:
        Path(args.json).write_text(text + "\n")
        if args.run_folder.is_dir() and Path(args.json).resolve().parent == args.run_folder.resolve():
            from dfml.report.card import refresh_card

            refresh_card(args.run_folder)
    if "caveat" in results[0]:
        console.print(results[0]["caveat"])
    if args.ask is not None:
        console.print(_curve(results, args))
        return
    rows = [
        (r["head"], f"{r['way']}-way {r['shot']}-shot", f"{r['mean']:.2f} ± {r['ci95']:.2f} %", str(r["tasks"]))
        for r in results
    ]
    console.print(table(("head", "task", f"accuracy on {args.dataset} {args.part}", "tasks"), rows))


def measure_live(path: Path, protocols: "Sequence[TaskProtocol]", args: argparse.Namespace) -> list[dict[str, Any]]:
    """Accuracy against queries a prediction; answers are kept beside the initialisation, in asked/ledger."""
    from dfml.apis.ledger import Purse
    from dfml.cli.progress import progress_bars
    from dfml.evaluation.live import accuracy_against_asking, asked_through
    from dfml.initialisation import Initialisation
    from dfml.words import money

    init, results = Initialisation.load(path), list[dict[str, Any]]()
    with progress_bars() as bars, asked_through(args.ask, path.parent / "asked", budget=args.budget) as apis:
        overall, purse = bars.add_task("asking", total=sum(protocol.tasks for protocol in protocols)), Purse(apis)
        for number, protocol in enumerate(protocols):
            before = sum(protocol.tasks for protocol in protocols[:number])
            what = f"{protocol.head.head}, {protocol.shot}-shot"

            def show(done: int, before: int = before, what: str = what) -> None:
                spent = purse.look(*purse.names)
                text = f"{what}; {spent.queries:,} queries{money(spent.usd, ' for ')}"
                bars.update(overall, completed=before + done, description=text)

            results += accuracy_against_asking(
                init,
                protocol,
                apis,
                args.ask_share,
                head=protocol.head.head if args.head else None,
                data=args.data,
                learn=not args.each_alone,
                on_task=show,
            )
    return [result | _caveat(init) for result in results]


def _caveat(init: "Initialisation") -> dict[str, Any]:
    """What stands beside every figure of an initialisation that is not data-free."""
    return {"data_free": False, "caveat": init.caveat} if init.caveat else {}


def _curve(results: list[dict[str, Any]], args: argparse.Namespace) -> Any:
    from dfml.cli.drawing import table

    rows = [
        [
            f"{r['way']}-way {r['shot']}-shot",
            f"{r['queries_per_prediction']:.2f}",
            f"{r['mean']:.2f} ± {r['ci95']:.2f} %",
            *([f"{r['usd_per_1000_predictions']:.2f}"] if "usd_per_1000_predictions" in r else []),
        ]
        for r in results
    ]
    titles = ["task", "queries a prediction", f"accuracy on {args.dataset} {args.part}", "USD a 1,000"]
    return table(titles[: len(rows[0])], rows)


def measure(
    path: Path,
    protocols: "Sequence[TaskProtocol]",
    *,
    data: Path | None = None,
    workers: int | None = None,
    hardware: "Hardware | None" = None,
) -> list[dict[str, Any]]:
    """Every protocol in turn, with a bar for all and one for each."""
    from dfml.cli.progress import progress_bars
    from dfml.evaluation.metatest import describe, meta_test
    from dfml.hardware import CPU
    from dfml.initialisation import Initialisation

    hardware = hardware or CPU
    notes = {**hardware.notes, **_caveat(Initialisation.load(path))}
    results = []
    with progress_bars() as bars:
        overall, whole, before = bars.add_task("evaluating", total=1.0), sum(p.effort for p in protocols), 0.0
        for protocol in protocols:
            task = bars.add_task(f"{protocol.head.head}, {protocol.shot}-shot", total=protocol.tasks)

            def show(done: float, task: Any = task, protocol: Any = protocol, before: float = before) -> None:
                bars.update(overall, completed=(before + protocol.effort * done / protocol.tasks) / whole)
                bars.update(task, completed=round(done))

            accuracy = meta_test(path, protocol, data=data, workers=workers, hardware=hardware, on_task=show)
            results.append(describe(protocol, accuracy) | notes)
            before += protocol.effort
            bars.remove_task(task)
    return results
