"""The arguments of every verb that can work on a cluster."""

import argparse


def add_engine(verb: argparse.ArgumentParser, what: str) -> None:
    """`--engine` and `--address`; `what` tells what is done there."""
    verb.add_argument("--engine", default="local", choices=("local", "ray"), help=f"{what} (default: local)")
    verb.add_argument("--address", metavar="ADDR", help="with --engine ray: a cluster that runs already, or auto")
