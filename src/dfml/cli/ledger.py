"""`dfml ledger RUN`: what a run has spent, API by API."""

import argparse
import json
from pathlib import Path
from typing import Any

_WORDS = {
    "unusable": "answers more were paid for and could not be used",
    "in_doubt": "images more were on the wire and may have been paid for",
    "saved": "images were answered by the ledger and cost nothing",
}


def add(verbs: Any) -> None:
    ledger = verbs.add_parser("ledger", help="what a run has spent")
    ledger.add_argument("run_folder", type=Path, metavar="RUN")
    ledger.add_argument("--json", action="store_true", help="print JSON and nothing else")
    ledger.set_defaults(run=run, computes=False)


def run(args: argparse.Namespace) -> None:
    from dfml.apis.ledger import COLUMNS, spending
    from dfml.cli.drawing import console, table

    spent = spending(args.run_folder)
    if args.json:
        print(json.dumps(spent, indent=2))
        return
    rows = [(name, *(f"{api[what]:,}" for what in COLUMNS)) for name, api in spent["apis"].items()]
    console.print(table(("API", "queries", "unusable", "in doubt", "saved"), rows))
    more = [f"{spent[what]:,} {words}" for what, words in _WORDS.items() if spent[what]]
    console.print(f"{spent['queries']:,} queries to {len(rows)} APIs" + "".join(f"; {words}" for words in more))
