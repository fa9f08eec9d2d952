"""The APIs of a live classifier, each behind its ledger."""

import shutil
import tempfile
import weakref
from collections.abc import Iterable, Sequence
from pathlib import Path

from dfml.adaptation.asking import SupportAnswers
from dfml.apis.blackbox import ApiSpec, BlackBox
from dfml.apis.ledger import Budget, Ledger, Metered, ledger_path
from dfml.apis.loading import load_apis
from dfml.errors import ConfigError


def connect(
    apis: str | Path | Sequence[BlackBox], folder: Path, *, budget: int | None, only: Iterable[str] | None = None
) -> list[Metered]:
    """`apis`, a manifest or a list, behind ledgers in `folder`; those named in `only`, in that order.

    An API that has a ledger already keeps it. `budget` bounds the queries to all of them together, those of earlier
    processes counted. Remote or priced APIs are refused without one.
    """
    boxes = load_apis(apis, only=only) if isinstance(apis, str | Path) else list(apis)
    if only is not None:
        by_name = {api.spec.name: api for api in boxes}
        missing = [name for name in only if name not in by_name]
        if missing:
            raise ConfigError(f"the classifier was made with the API {missing[0]!r}, which is not among those given")
        boxes = [by_name[name] for name in only]
    if not boxes:
        raise ConfigError("there is no API to ask; pass at least one")
    refuse_unbounded([api.spec for api in boxes if not isinstance(api, Metered)], budget)
    shared = None if budget is None else Budget(budget)
    return [api if isinstance(api, Metered) else _metered(api, folder, shared) for api in boxes]


def refuse_changed(apis: Sequence[Metered], support: SupportAnswers) -> None:
    """What was said about the support set means nothing to an API that has other classes by now."""
    for api, sums in zip(apis, support.sums, strict=True):
        if sums.shape[1] != api.spec.way:
            raise ConfigError(
                f"{api.spec.name} had {sums.shape[1]} classes when this classifier was made and has {api.spec.way} "
                "now; adapt it anew"
            )


def refuse_unbounded(specs: Sequence[ApiSpec], budget: int | None) -> None:
    """Remote or priced APIs may be asked only within a limit."""
    unbounded = [spec.name for spec in specs if spec.terms.costs and spec.terms.budget is None]
    if unbounded and budget is None:
        raise ConfigError(
            f"{unbounded[0]} is remote or priced and has no budget; say how many queries may be sent with --budget"
        )


def passing_folder(owner: object) -> Path:
    """A folder for ledgers that vanishes with its owner."""
    folder = Path(tempfile.mkdtemp(prefix="dfml-"))
    weakref.finalize(owner, shutil.rmtree, folder, ignore_errors=True)
    return folder


def copy_ledgers(apis: Sequence[Metered], folder: Path) -> None:
    """Put the ledgers of `apis` into `folder`, where they are not there already."""
    for api in apis:
        target = ledger_path(folder, api.spec.name)
        api.ledger.close()  # what is in the write-ahead log goes into the file; the next query opens it again
        if api.ledger.path.resolve() != target.resolve() and api.ledger.path.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(api.ledger.path, target)


def _metered(api: BlackBox, folder: Path, shared: Budget | None) -> Metered:
    ledger = Ledger(ledger_path(folder, api.spec.name), budget=api.spec.terms.budget, shared=shared)
    return Metered(api, ledger)
