"""The command `dfml`: one file a verb, each with `add(verbs)` for its arguments and `run(args)` for its work.

Verbs import what they need inside `run`, so that `dfml --help` answers without loading torch.
"""

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import NoReturn

from dfml.errors import DfmlError
from dfml.runtime import keep_freed_memory, sleep_while_waiting

VERBS = (
    "demo",
    "zoo",
    "serve",
    "apis",
    "probe",
    "learn",
    "evaluate",
    "adapt",
    "predict",
    "play",
    "refine",
    "ledger",
    "images",
    "bench",
    "report",
    "doctor",
    "cache",
)


class Parser(argparse.ArgumentParser):
    """argparse that complains in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def parser() -> Parser:
    """The whole command line."""
    root = Parser(prog="dfml", description="Learn to learn from black-box image-classification APIs, without data.")
    verbs = root.add_subparsers(dest="verb", required=True, metavar="VERB")
    for verb in VERBS:
        importlib.import_module(f"dfml.cli.{verb}").add(verbs)
    return root


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status is 0 for success, 1 for a problem that was explained, 130 for Ctrl-C.

    `learn` ends with 3 where it learned from less than was planned, because APIs failed.
    """
    args = parser().parse_args(arguments)
    try:
        if args.computes:
            sleep_while_waiting()
            keep_freed_memory()
        return int(args.run(args) or 0)
    except DfmlError as error:
        print(f"dfml: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        again = "the same command with --resume" if args.verb == "learn" else "the same command again"
        print(f"dfml: stopped, and nothing that was paid for is lost; {again} goes on", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `dfml ... | head`
        sys.stderr.close()
        return 0
