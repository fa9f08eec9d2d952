"""Options that several verbs share: where to compute, how exactly, and on which engine."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfml.hardware import Hardware


def add_device(verb: Any) -> None:
    """Where to compute."""
    verb.add_argument("--device", default="cpu", help="cpu (default), cuda, cuda:1 or auto: a GPU if there is one")


def add_hardware(verb: Any) -> None:
    """Where to compute, and how exactly."""
    add_device(verb)
    verb.add_argument(
        "--precision", default="full", help="full (default), or mixed: convolutions of the network in bfloat16"
    )


def chosen_hardware(args: argparse.Namespace) -> "Hardware":
    """What the options stand for."""
    from dfml.hardware import find_hardware

    return find_hardware(args.device, args.precision)


def add_mirror(verb: Any) -> None:
    """Whether images may be looked at in a mirror."""
    verb.add_argument(
        "--no-mirror",
        dest="mirror",
        action="store_false",
        help="head answers: what is mirrored is something else, as with letters",
    )


def add_engine(verb: argparse.ArgumentParser, what: str) -> None:
    """`--engine` and `--address`; `what` tells what is done there."""
    verb.add_argument("--engine", default="local", choices=("local", "ray"), help=f"{what} (default: local)")
    verb.add_argument("--address", metavar="ADDR", help="with --engine ray: a cluster that runs already, or auto")


def asked_share(text: str | None) -> Any:
    """What `--ask` stands for: `auto`, a number, or None where it was left out."""
    from dfml.errors import ConfigError

    if text is None or text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"--ask takes a number of queries an image, such as 0.3, or auto; not {text!r}") from None


def at_most(queries: int, prices: "Sequence[float | None]") -> str:
    """`at most 60 queries (0.09 USD)`; the dearest API decides the price of a query."""
    usd = queries * max((price or 0.0 for price in prices), default=0.0) / 1000
    return f"at most {queries:,} queries" + (f" ({usd:,.2f} USD)" if usd else "")


def check_out(folder: Path) -> None:
    """Refuse a folder for a classifier that holds something else."""
    from dfml.errors import ConfigError

    if folder.is_file():
        raise ConfigError(f"{folder} is a file; choose a folder as --out")
    held = {path.name for path in folder.iterdir()} if folder.exists() else set()
    if held and "classifier.safetensors" not in held and held != {"ledger"}:  # ledgers alone: one that was begun
        raise ConfigError(f"{folder} holds other files; choose another --out")
