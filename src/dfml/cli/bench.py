"""`dfml bench TABLE`: a table or figure of the paper, run; `dfml bench real`: real APIs; `dfml bench show RESULTS`."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dfml.cli.options import add_engine, add_hardware, chosen_hardware

if TYPE_CHECKING:
    from dfml.bench.running import Place
    from dfml.bench.tables import Table
    from dfml.engine.choice import Engine

RESULTS = Path("bench-results")
"""not `results`, which projects have already: this one, too, keeps what it commits there"""


def add(verbs: Any) -> None:
    bench = verbs.add_parser("bench", help="run a table or figure of the paper, or show the results")
    bench.add_argument(
        "table", metavar="TABLE|real|show", help="tab:ss, tab:ablation, fig:apinum, queries, ..., real, or show"
    )
    bench.add_argument(
        "results", nargs="?", type=Path, metavar="RESULTS", help=f"show: the folder of results (default: {RESULTS})"
    )
    bench.add_argument("--scale", default="smoke", choices=("smoke", "laptop", "workstation", "paper"))
    bench.add_argument("--dataset", help="glyphs, cifar-fs, mini-imagenet or cub (default: the scale's)")
    bench.add_argument("--data", type=Path, metavar="DIR", help="where the data set lies; for tab:mh all three")
    bench.add_argument("--seeds", type=int, help="seeds of every row (default: the scale's)")
    bench.add_argument("--rows", nargs="+", default=[], metavar="ROW", help="only these rows")
    bench.add_argument(
        "--out", type=Path, metavar="DIR", help=f"where results go (default: {RESULTS}); with show: LaTeX and figures"
    )
    bench.add_argument("--zoos", type=Path, nargs="+", default=[], metavar="DIR", help="zoos to use where they fit")
    bench.add_argument(
        "--work",
        type=Path,
        default=Path("bench-work"),
        metavar="DIR",
        help="for new zoos and runs (default: %(default)s)",
    )
    bench.add_argument("--workers", type=int, help="cells at once (default: one a core)")
    real = bench.add_argument_group("real: what real APIs know of new classes, and what a student heard of it")
    real.add_argument("--apis", type=Path, metavar="MANIFEST", help="the APIs, as for dfml learn")
    real.add_argument("--only", action="append", metavar="NAME", help="one of its APIs; may be repeated")
    real.add_argument("--run", type=Path, dest="run_folder", metavar="RUN", help="what was learned from them")
    real.add_argument("--part", default="val", choices=("val", "test"), help="choose on val (default), report on test")
    real.add_argument("--way", type=int, default=5)
    real.add_argument("--shot", type=int, nargs="+", default=[1, 5])
    real.add_argument("--tasks", type=int, default=300)
    real.add_argument("--seed", type=int, default=0, help="which tasks are drawn")
    real.add_argument("--budget-per-api", type=int, metavar="N", help="answers that an API may give in all")
    add_hardware(bench)
    add_engine(bench, "where cells run; with ray, every machine must see the same folders")
    bench.set_defaults(run=run, computes=True)


def run(args: argparse.Namespace) -> int:
    from dfml.errors import ConfigError

    if args.table == "show":
        return show(args.results or RESULTS, args.out)
    if args.results is not None:
        raise ConfigError(f"dfml bench {args.table} takes no folder besides --out; did you mean `dfml bench show`?")
    if args.table == "real":
        return run_real_table(args)
    from dfml.bench.catalogue import make_table
    from dfml.bench.results import Results
    from dfml.bench.running import Place
    from dfml.bench.scales import SCALES
    from dfml.bench.zoos import Zoos
    from dfml.engine.choice import open_engine
    from dfml.evaluation.metatest import open_parts

    scale, hardware = SCALES[args.scale], chosen_hardware(args)
    table = make_table(args.table, scale, dataset=args.dataset, seeds=args.seeds, rows=args.rows)
    open_parts(table.dataset, "test", args.data)  # complain before anything is computed
    results = Results((args.out or RESULTS).absolute())  # workers may have another working folder
    work, data = args.work.absolute(), args.data.absolute() if args.data else None
    zoos = Zoos(work / "zoos", [zoos.absolute() for zoos in args.zoos])
    place = Place(results, work / "runs", zoos, data, hardware)
    with open_engine(args.engine, args.address) as engine:
        failed = run_table(
            table, place, engine=engine, workers=args.workers, whole=not args.rows, estimate=args.scale == "paper"
        )
    print_table(results.folder, table)
    return 1 if failed else 0


def run_real_table(args: argparse.Namespace) -> int:
    """Real APIs on the tasks of one data set."""
    from dfml.apis.loading import load_apis
    from dfml.bench.real import TaskDone, run_real
    from dfml.bench.real_rows import RealTable
    from dfml.cli.progress import progress_bars
    from dfml.config import from_mapping
    from dfml.errors import ConfigError
    from dfml.words import money

    if args.apis is None:
        raise ConfigError("dfml bench real asks real APIs; name their manifest: --apis apis.toml")
    told = {"dataset": args.dataset or "glyphs", "shots": sorted(set(args.shot))}
    told |= {name: getattr(args, name) for name in ("part", "way", "tasks", "seed")}
    table = from_mapping(RealTable, told, where="dfml bench real")
    apis, folder = load_apis(args.apis, only=args.only), args.out or RESULTS
    with progress_bars() as bars:
        overall = bars.add_task("real", total=None)

        def show_task(task: TaskDone) -> None:
            text = f"{task.what}; {task.spent.queries:,} answers on file{money(task.spent.usd, ', ')}"
            bars.update(overall, description=text, completed=task.done, total=task.total)

        run_real(
            table, apis, folder=folder, run=args.run_folder, data=args.data, only=args.rows,
            budget_per_api=args.budget_per_api, on_task=show_task,
        )  # fmt: skip
    return show(folder, None)


def run_table(
    table: "Table", place: "Place", *, engine: "Engine", workers: int | None, whole: bool, estimate: bool
) -> int:
    """Build what is missing, run what is not finished, and say in a sentence what failed; the number of failures."""
    from dfml.bench.estimate import estimate_cost
    from dfml.bench.running import CellDone, CellProgress, run_cells
    from dfml.cli.drawing import console
    from dfml.cli.progress import Parts, progress_bars
    from dfml.cli.zoo import build_with_progress

    waiting = [cell for cell in table.cells if not place.results.finished(cell.stem)]
    done = len(table.cells) - len(waiting)
    console.print(f"{table.name} at {table.scale} scale on {table.dataset}: {len(waiting)} cells to run, {done} done")
    if estimate and waiting:
        console.print(estimate_cost(waiting))
    if whole:
        table.save(place.results.folder)
    for config in place.zoos.missing(draw for cell in waiting for draw in cell.apis):
        folder = place.zoos.folder(config)
        build_with_progress(folder, config, data=place.data, workers=workers, hardware=place.hardware, engine=engine)
    failures = 0
    with progress_bars() as bars:
        overall, parts, done = bars.add_task(table.name, total=len(waiting)), Parts(bars), 0
        for event in run_cells(waiting, place, workers=workers, engine=engine):
            if isinstance(event, CellProgress):
                what = f"{event.cell.row}, seed {event.cell.seed}"
                bars.update(overall, completed=done + parts.show(event.cell.run_name, event.done, what))
            elif isinstance(event, CellDone):
                done += 1
                bars.update(overall, completed=done + parts.end(event.cell.run_name))
                if event.failure is not None:
                    failures += 1
                    failure = f"{event.cell.row}, seed {event.cell.seed}, failed: {event.failure}"
                    bars.console.print(failure, markup=False)
    return failures


def print_table(folder: Path, table: "Table") -> None:
    """The table as it stands."""
    from dfml.bench.results import load_table
    from dfml.bench.show import markdown
    from dfml.cli.drawing import console

    console.print(markdown(load_table(table.content, folder)), soft_wrap=True, markup=False)


def show(results: Path, out: Path | None) -> int:
    """All tables in `results` as Markdown, and with `out` as LaTeX and figures."""
    from dfml.bench.results import read_tables
    from dfml.bench.show import markdown, write_figures, write_latex
    from dfml.cli.drawing import console

    tables = read_tables(results)
    console.print("\n\n".join(markdown(table) for table in tables), soft_wrap=True, markup=False)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        for table in tables:
            write_latex(table, out)
            write_figures(table, out)
        console.print(f"LaTeX and figures are in {out}")
    return 0
