"""`dfml ledger RUN`: what a run has spent, API by API."""

import argparse
import json
from pathlib import Path
from typing import Any


def add(verbs: Any) -> None:
    ledger = verbs.add_parser("ledger", help="what a run has spent")
    ledger.add_argument("run_folder", type=Path, metavar="RUN")
    ledger.add_argument("--json", action="store_true", help="print JSON and nothing else")
    ledger.set_defaults(run=run, computes=False)


def run(args: argparse.Namespace) -> None:
    from dfml.apis.ledger import spending
    from dfml.cli.drawing import console, table

    spent = spending(args.run_folder)
    if args.json:
        print(json.dumps(spent, indent=2))
        return
    rows = [(name, f"{api['queries']:,}", f"{api['in_doubt']:,}") for name, api in spent["apis"].items()]
    console.print(table(("API", "queries", "in doubt"), rows))
    console.print(f"{spent['queries']:,} queries to {len(rows)} APIs")
