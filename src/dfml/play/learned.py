"""What was learned before this page was opened: by which APIs, from which pictures, at what cost."""

from pathlib import Path
from typing import Any

from dfml import Initialisation, spending
from dfml.errors import shown
from dfml.report.page import presentable
from dfml.report.pictures import shelves
from dfml.report.story import read_run

MOST_APIS = 200
"""rows of a table that a page still shows well"""


def learned(run: Path | None, initialisation: Initialisation | None) -> dict[str, Any]:
    """Facts in a line each, the APIs with what they cost, and pictures that taught with what each API called them."""
    if run is None:
        return {"facts": _provenance(initialisation), "apis": [], "shelves": [], "shelves_of": 0}
    story = read_run(run)
    found, total = shelves(run / "recovered")
    facts = [("method", story.method), ("APIs", f"{len(story.apis):,}"), ("queries", f"{story.queries:,}")]
    facts += [("price", f"{story.money:,.2f} USD")] if story.money is not None else []
    facts += [("own pictures", story.caveat)] if story.caveat else []
    return {
        "facts": facts,
        "apis": [
            {
                "name": shown(api.name),
                "queries": api.queries,
                "usd": api.money,
                "weight": api.weight,
                "classes": [shown(name, 60) for name in api.classes[:8]],
                "more": max(0, len(api.classes) - 8),
            }
            for api in story.apis[:MOST_APIS]
        ],
        "apis_of": len(story.apis),
        "shelves": [
            {
                "api": shown(shelf.api),
                "pictures": [
                    {
                        "source": picture.source,
                        "wanted": shown(picture.wanted, 60),
                        "answer": shown(picture.answer, 60),
                        "share": picture.share,
                    }
                    for _, pictures in shelf.classes
                    for picture in pictures[:1]
                ],
            }
            for shelf in found
        ],
        "shelves_of": total,
    }


def ledger(folder: Path) -> list[dict[str, Any]]:
    """What asking from this page has cost, API by API."""
    if not (folder / "ledger").is_dir():
        return []
    return [{"name": shown(name), **told} for name, told in spending(folder)["apis"].items()]


def _provenance(initialisation: Initialisation | None) -> list[tuple[str, str]]:
    if initialisation is None:
        return []
    told = initialisation.provenance
    facts = [("method", str(told.get("method", "unknown")))]
    if isinstance(told.get("apis"), list | tuple):
        facts.append(("APIs", f"{len(told['apis']):,}"))
    if isinstance(told.get("queries"), int):
        facts.append(("queries", f"{told['queries']:,}"))
    facts += [("own pictures", initialisation.caveat)] if initialisation.caveat else []
    return [(name, str(presentable(value))) for name, value in facts]
