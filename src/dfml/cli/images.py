"""`dfml images --out sheet.png`: look at the pictures that APIs are asked about."""

import argparse
from pathlib import Path
from typing import Any


def add(verbs: Any) -> None:
    images = verbs.add_parser("images", help="a contact sheet of procedural images")
    images.add_argument("--count", type=int, default=256)
    images.add_argument("--size", type=int, default=32)
    images.add_argument("--channels", type=int, default=3, choices=(1, 3))
    images.add_argument("--seed", type=int, default=0)
    images.add_argument(
        "--kind",
        default="mixed",
        choices=("mixed", "painted"),
        help="mixed (default), as chorus asks about: half painted, half made by random networks",
    )
    images.add_argument("--out", type=Path, required=True, metavar="PNG")
    images.set_defaults(run=run, computes=True)


def run(args: argparse.Namespace) -> None:
    from dfml.cli.drawing import console
    from dfml.errors import ConfigError
    from dfml.images.prior import prior
    from dfml.images.sheet import contact_sheet

    drawn = prior(args.count, seed=args.seed, size=args.size, channels=args.channels, kind=args.kind)
    sheet = contact_sheet(drawn)
    try:
        sheet.save(args.out)
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot write {args.out}: {error}; name a .png file in a folder that exists") from None
    console.print(f"{args.count} images drawn from seed {args.seed} are in {args.out}")
