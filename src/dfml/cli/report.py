"""`dfml report RUN|RESULTS --out report.html`: what was learned, from whom and at what cost, as one page."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def add(verbs: Any) -> None:
    report = verbs.add_parser("report", help="one self-contained page about runs or bench results")
    report.add_argument(
        "folders", type=Path, nargs="+", metavar="FOLDER", help="a run, a folder of runs, or results of dfml bench"
    )
    report.add_argument("--out", type=Path, default=Path("report.html"), metavar="HTML")
    report.set_defaults(run=run, computes=False)


def run(args: argparse.Namespace) -> None:
    write_report(args.folders, args.out)


def write_report(folders: Sequence[Path], out: Path) -> None:
    """Write the page and say where it is."""
    from dfml.cli.drawing import console
    from dfml.files import write_whole
    from dfml.report.page import report

    page = report(*folders).encode()
    write_whole(out, page)
    console.print(f"{out} is written ({len(page) / 1e6:.1f} MB); open it in any browser")
