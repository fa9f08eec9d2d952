"""The options `--device` and `--precision` of the verbs that compute."""

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
