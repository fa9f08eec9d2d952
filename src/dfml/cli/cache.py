"""`dfml cache`: what lies in the user's cache folder, how large it is, and how to be rid of it."""

import argparse
import json
from typing import Any


def add(verbs: Any) -> None:
    cache = verbs.add_parser("cache", help="show what dfml keeps in the cache folder, or remove it")
    actions = cache.add_subparsers(dest="action", required=True, metavar="show|prune")
    show = actions.add_parser("show", help="what is there, how large, and when it was last used")
    show.add_argument("--json", action="store_true", help="print JSON and nothing else")
    show.set_defaults(run=run_show, computes=False)
    prune = actions.add_parser("prune", help="remove what was not used for a while; it is made again when needed")
    prune.add_argument("--unused-for", type=float, default=30.0, metavar="DAYS", help="default: 30; 0 removes all")
    prune.set_defaults(run=run_prune, computes=False)


def run_show(args: argparse.Namespace) -> None:
    from dfml.cli.drawing import console, table
    from dfml.data.caches import cache_entries, cache_folder
    from dfml.words import amount

    folder, entries = cache_folder(), cache_entries()
    if args.json:
        told = [{"name": entry.name, "bytes": entry.size, "unused_days": round(entry.unused, 2)} for entry in entries]
        print(json.dumps({"folder": str(folder), "entries": told}, indent=2))
        return
    if entries:
        rows = [(entry.name, amount(entry.size), f"{entry.unused:.0f}") for entry in entries]
        console.print(table(("what", "size", "days unused"), rows, shorten="what"))
    console.print(f"{amount(sum(entry.size for entry in entries))} in {folder}", markup=False, soft_wrap=True)


def run_prune(args: argparse.Namespace) -> None:
    from dfml.cli.drawing import console
    from dfml.data.caches import prune
    from dfml.errors import ConfigError
    from dfml.words import amount

    if not args.unused_for >= 0:
        raise ConfigError(f"--unused-for is a number of days, 0 or more, not {args.unused_for:g}")
    gone = prune(args.unused_for)
    what = f"{len(gone)} of them" if gone else "nothing"
    console.print(f"removed {what}, {amount(sum(entry.size for entry in gone))}; the rest was used more recently")
