"""`dfml play RUN|CLF`: a page on this machine to teach, try and save a classifier by pictures."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dfml.cli.options import add_device

if TYPE_CHECKING:
    from dfml.play.studio import Studio


def add(verbs: Any) -> None:
    play = verbs.add_parser("play", help="a local page: drop pictures into classes, see what the classifier says")
    play.add_argument("path", type=Path, metavar="RUN|CLF", help="a run folder, init.safetensors or a classifier")
    play.add_argument("--support", type=Path, metavar="DIR", help="begin with these: one folder a class")
    play.add_argument("--ask", type=Path, metavar="APIS", help="an apis.toml or zoo that may be asked, by a switch")
    play.add_argument("--budget", type=int, metavar="QUERIES", help="to all APIs together, never passed")
    play.add_argument("--out", type=Path, metavar="CLF", help="where to save (default: RUN/play, or CLF itself)")
    play.add_argument("--port", type=int, default=0, help="0 takes a free one (default)")
    play.add_argument("--no-browser", action="store_true", help="print the address and open nothing")
    add_device(play)
    play.set_defaults(run=run, computes=True)


def run(args: argparse.Namespace) -> None:
    import warnings
    from contextlib import closing

    from PIL.Image import DecompressionBombWarning

    from dfml.cli.options import check_out
    from dfml.errors import ConfigError

    try:
        from dfml.play.server import PlayServer, open_browser
        from dfml.play.studio import open_studio
    except ModuleNotFoundError as error:
        raise ConfigError(f"dfml play needs the package {error.name}; pip install 'dfml[play]'") from None

    warnings.simplefilter("ignore", DecompressionBombWarning)  # the page's own limit is lower
    if args.support is not None and not args.support.is_dir():
        raise ConfigError(f"{args.support} is no folder; expected one with a sub-folder of images for each class")
    if args.out is not None:
        check_out(args.out)
    studio = open_studio(
        args.path, ask=args.ask, budget=args.budget, out=args.out, support=args.support, device=args.device
    )
    with closing(studio):
        _refuse_unbounded(studio, asked_for=args.ask is not None)
        with PlayServer(studio, port=args.port) as server:
            print(f"play at {server.address} (Ctrl-C ends)", flush=True)
            if not args.no_browser:
                open_browser(server.address)
            try:
                server.run()
            except KeyboardInterrupt:
                print("ended; what was saved, asked and paid for is kept", flush=True)


def _refuse_unbounded(studio: "Studio", *, asked_for: bool) -> None:
    """APIs that cost need a budget: to ask them at all, or, where they are only known of, to be offered."""
    from dfml.adaptation.connecting import refuse_unbounded
    from dfml.errors import ConfigError

    if studio.asking is None:
        return
    try:
        refuse_unbounded([api.spec for api in studio.asking.apis], studio.asking.budget)
    except ConfigError as error:
        if asked_for:
            raise
        studio.asking, studio.silent = None, str(error)
