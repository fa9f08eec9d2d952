"""`dfml demo`."""
from typing import Any


def add(verbs: Any) -> None:
    demo = verbs.add_parser("demo", help="x")
    demo.set_defaults(run=run, computes=True)
def run(args: Any) -> None:
    pass
