"""`dfml learn ZOO|apis.toml --out RUN`: from APIs to an initialisation."""

import argparse
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dfml.cli.options import add_engine, add_hardware, chosen_hardware

if TYPE_CHECKING:
    from dfml.events import Event


SHORT = 3
"""exit status where something was learned, from less than was planned"""


def add(verbs: Any) -> None:
    learn = verbs.add_parser("learn", help="learn an initialisation from APIs")
    learn.add_argument("apis", type=Path, metavar="APIS", help="a zoo folder or an apis.toml")
    learn.add_argument(
        "--method",
        default="chorus",
        help="chorus (default), bidf-mkd, white-box, single-dfkd, distill-avg, dfme, maze or random; or a Python file "
        "that is one",
    )
    learn.add_argument("--preset", help="named settings: thorough, strong (chorus); paper, released (bidf-mkd)")
    learn.add_argument("--config", type=Path, metavar="TOML", help="settings from a file; --set goes on top")
    learn.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="e.g. recovery.directions=10")
    learn.add_argument("--budget", type=int, metavar="QUERIES", help="to all APIs together, never passed")
    learn.add_argument("--budget-per-api", type=int, metavar="QUERIES")
    learn.add_argument(
        "--images", type=Path, metavar="FOLDER", help="unlabelled pictures of your own to ask about first (chorus)"
    )
    learn.add_argument("--seed", type=int, default=0)
    learn.add_argument(
        "--resume", action="store_true", help="go on with the run in --out; budgets may differ from those it began with"
    )
    learn.add_argument(
        "--forgive-doubt",
        action="store_true",
        help="let what was on the wire when a run was killed, and perhaps paid for, not count against the budget",
    )
    learn.add_argument(
        "--exact-answers", action="store_true", help="keep answers of more than 100 classes to the last bit"
    )
    add_hardware(learn)
    add_engine(learn, "where APIs are asked")
    learn.add_argument("--tensorboard", action="store_true", help="also write the curves to RUN/tensorboard")
    learn.add_argument("--out", type=Path, required=True, metavar="RUN")
    learn.set_defaults(run=run, computes=True)


def run(args: argparse.Namespace) -> int:
    from dfml.apis.ledger import spending
    from dfml.cli.drawing import console
    from dfml.learning import learn, settings_from

    hardware = chosen_hardware(args)
    settings = [*(settings_from(args.config) if args.config else ()), *args.set]
    with ExitStack() as opened:
        show = [opened.enter_context(LearningProgress()).show]
        if args.tensorboard:
            from dfml.report.tensorboard import TensorBoard

            show.append(opened.enter_context(TensorBoard(args.out)).show)
        initialisation = learn(
            args.apis,
            args.out,
            method=args.method,
            preset=args.preset,
            settings=settings,
            budget=args.budget,
            budget_per_api=args.budget_per_api,
            seed=args.seed,
            resume=args.resume,
            device=str(hardware.device),
            precision=hardware.precision,
            engine=args.engine,
            address=args.address,
            images=_pictures(args),
            forgive_doubt=args.forgive_doubt,
            exact_answers=args.exact_answers,
            on_event=lambda event: [each(event) for each in show],
        )
    spent = spending(args.out)["queries"]
    if initialisation.caveat:
        console.print(initialisation.caveat)
    short = initialisation.provenance.get("short")
    if short is None:
        console.print(f"{args.out / 'init.safetensors'} is learned, from {spent:,} queries")
        return 0
    got, planned, what = short["got"], short["planned"], short["what"]
    console.print(
        f"{args.out / 'init.safetensors'} is learned from {got:,} of {planned:,} {what} ({short['reason']}); put that "
        f"right, then the same command with --resume gets the missing {planned - got:,}",
        markup=False,
    )
    return SHORT


def _pictures(args: argparse.Namespace) -> Any:
    """What is in --images, as large as the largest image that any API takes."""
    if args.images is None:
        return None
    from dfml.apis.blackbox import release
    from dfml.apis.loading import load_apis
    from dfml.data.unlabelled import LARGEST, read_unlabelled

    apis = load_apis(args.apis)
    shapes = [api.spec.image for api in apis]
    for api in apis:
        release(api)
    side = min(LARGEST, max(max(height, width) for _, height, width in shapes))
    return read_unlabelled(args.images, size=side, channels=max(channels for channels, _, _ in shapes))


class LearningProgress:
    """Two bars: all of learning, with what it has spent, and the stage under way."""

    def __init__(self) -> None:
        from dfml.cli.progress import progress_bars
        from dfml.status import LearningStatus

        self.status = LearningStatus()
        self.bars = progress_bars()
        self.overall = self.bars.add_task("learning", total=None)
        self.stage = self.bars.add_task("", total=None, visible=False)

    def __enter__(self) -> "LearningProgress":
        self.bars.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.bars.stop()

    def show(self, event: "Event") -> None:
        """Draw one event."""
        status = self.status
        said = status.see(event)
        if said is not None:
            self.bars.console.print(said, markup=False, soft_wrap=True)  # a server's words are no markup
        stage = status.stage
        if stage is None or stage.text == "distilling":  # the overall bar tells that
            self.bars.update(self.stage, visible=False)
        else:
            self.bars.update(self.stage, description=stage.text, completed=stage.done, total=stage.total, visible=True)
        total = status.total or None
        self.bars.update(self.overall, description=status.text, completed=status.done, total=total, to_go=status.to_go)
