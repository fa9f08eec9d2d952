"""What a run has spent, read from the ledgers in its folder."""

from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from dfml.apis.ledger.journal_file import read_only
from dfml.errors import ArtifactError

COLUMNS = ("queries", "unusable", "in_doubt", "saved")
"""what is told of every API: answers kept; paid for nothing; perhaps paid for nothing; not paid for again"""


def ledger_path(run: Path, name: str) -> Path:
    """The file of an API's ledger in a run folder."""
    return run / "ledger" / f"{quote(name, safe='')}.sqlite"


def spending(run: str | Path) -> dict[str, Any]:
    """What a run has spent so far: each of `COLUMNS`, in all and, under "apis", by name."""
    run = Path(run)
    folder = run / "ledger"
    if not folder.is_dir() and not (run / "config.toml").is_file():
        raise ArtifactError(f"{run} is no run folder: it has neither ledger/ nor config.toml; name one of dfml")
    apis = {}
    for path in sorted(folder.glob("*.sqlite")):
        facts = read_only(path)
        apis[facts.name or unquote(path.stem)] = {
            "queries": facts.paid,
            "unusable": facts.unusable,
            "in_doubt": facts.in_doubt,
            "saved": facts.saved,
        }
    return {what: sum(api[what] for api in apis.values()) for what in COLUMNS} | {"apis": apis}
