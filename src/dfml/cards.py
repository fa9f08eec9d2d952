"""Model cards: README.md of a run folder and of a classifier, with the metadata fields that Hugging Face reads.

Names of APIs and classes come from strangers, so nothing of them can become markup. Nothing else that a manifest holds,
addresses and headers among it, is in a card.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dfml.errors import shown
from dfml.files import write_whole
from dfml.words import money

OURS = "<!-- dfml writes this page anew whenever there is news, until this line is removed -->"
SHOWN_ROWS = 50
"""APIs or classes that a card names"""


class Teacher(NamedTuple):
    """One API, as a card tells of it."""

    name: str
    classes: int
    queries: int
    usd: float | None


class Measured(NamedTuple):
    """One accuracy in percent, and on what."""

    dataset: str
    part: str
    way: int
    shot: int
    tasks: int
    head: str
    mean: float
    ci95: float


def write_card(folder: Path, text: str) -> None:
    """`folder`/README.md, unless there is one that somebody made their own."""
    path = folder / "README.md"
    if not path.exists() or OURS in path.read_text(errors="replace"):
        write_whole(path, text.encode())


def run_card(provenance: Mapping[str, Any], teachers: Sequence[Teacher], measured: Sequence[Measured] = ()) -> str:
    """The card of an initialisation."""
    front = {
        "library_name": "dfml",
        "tags": [*_TAGS, "meta-learning", *(["data-free"] if not provenance.get("taught_with") else [])],
        **({"model-index": [{"name": "initialisation", "results": _results(measured)}]} if measured else {}),
    }
    return _page(
        front,
        "A few-shot initialisation",
        "Weights that adapt to a new image-classification task from a handful of labelled images: `init.safetensors`.",
        [
            ("How it was taught", _taught(provenance)),
            ("By whom", _teachers(teachers)),
            ("Accuracy", _accuracies(measured)),
            (
                "Use",
                "```sh\n# photos/ has one folder a class\ndfml adapt FOLDER --support photos/ --out classifier/\n```",
            ),
            ("Intended use and limits", _LIMITS),
        ],
    )


def classifier_card(classes: Sequence[Any], provenance: Mapping[str, Any] | None, *, asks: Sequence[str] = ()) -> str:
    """The card of a classifier; `asks` are the APIs that a live one may ask about the images it judges."""
    front = {
        "library_name": "dfml",
        "pipeline_tag": "image-classification",
        "tags": _TAGS,
    }
    named = ", ".join(escaped(name) for name in classes[:SHOWN_ROWS])
    more = f", and {len(classes) - SHOWN_ROWS:,} more" if len(classes) > SHOWN_ROWS else ""
    live = "It asks nobody: pictures stay on the machine."
    if asks:
        live = (
            f"**It is live:** pictures of which it is unsure may be sent to {len(asks):,} APIs "
            f"({', '.join(map(escaped, asks[:SHOWN_ROWS]))}), within a budget; `dfml predict --ask 0` sends none."
        )
    network = "It has no network of its own." if provenance is None and asks else _taught(provenance or {})
    return _page(
        front,
        f"A classifier of {len(classes):,} classes",
        f"It tells these apart: {named}{more}. It was made from a few labelled images of each.",
        [
            ("How its network was taught", network),
            ("Whom it asks", live),
            ("Use", "`dfml predict FOLDER picture.jpg`; `model.onnx`, where it is there, runs without dfml."),
            ("Intended use and limits", _LIMITS),
        ],
    )


_TAGS = ["image-classification", "few-shot", "black-box", "distillation"]
_LIMITS = (
    "For telling apart the classes of a task that somebody looks after, from images like its examples. It always names "
    "one of its classes, also for an image of none. It was distilled from what others' APIs answered, so it can have "
    "their mistakes and their bias, and their terms may forbid some uses. Measure it on the task before anything "
    "depends on it. No licence is given here: whoever publishes it chooses one that those terms allow, as `license:` "
    "above."
)


def escaped(text: Any) -> str:
    """A stranger's word as words: on one line, not too long, and no markup in Markdown or HTML."""
    return re.sub(r"([\\`*_\[\]<>|~#!:@&.${}])", r"\\\1", shown(str(text), 80))


def _page(front: Mapping[str, Any], title: str, opening: str, parts: Sequence[tuple[str, str]]) -> str:
    metadata = "\n".join(
        f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in front.items()
    )  # JSON is YAML
    body = "\n\n".join(f"## {heading}\n\n{text}" for heading, text in parts if text)
    return f"---\n{metadata}\n# license: yours to choose\n---\n\n# {title}\n\n{opening}\n\n{body}\n\n{OURS}\n"


def _taught(provenance: Mapping[str, Any]) -> str:
    if not provenance:
        return "How its network was taught is not on file."
    taught = provenance.get("taught_with")
    images = "**Data-free:** no image was seen but those that learning made itself."
    if taught:
        images = f"**Not data-free:** also taught with {int(taught.get('pictures', 0)):,} pictures of the user's own."
    short = provenance.get("short")
    missing = f" It got {short['got']:,} of {short['planned']:,} planned {short['what']}." if short else ""
    method, version = escaped(provenance.get("method", "unknown")), escaped(provenance.get("dfml", ""))
    queries, apis = int(provenance.get("queries", 0)), len(provenance.get("apis", ()))
    how = f"By the method `{method}` of dfml {version}, from {queries:,} answers of {apis:,} black-box APIs."
    return f"{how}{missing} {images}"


def _teachers(teachers: Sequence[Teacher]) -> str:
    rows = [
        (escaped(api.name), f"{api.classes:,}", f"{api.queries:,}", money(api.usd)) for api in teachers[:SHOWN_ROWS]
    ]
    if len(teachers) > SHOWN_ROWS:
        rows.append((f"and {len(teachers) - SHOWN_ROWS:,} more", "", "", ""))
    prices = [api.usd for api in teachers if api.usd is not None]
    paid = money(sum(prices) if prices else None, " for ")
    total = f"All together: {sum(api.queries for api in teachers):,} queries{paid}."
    return f"{_table(('API', 'classes', 'queries', 'price'), rows)}\n\n{total}"


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (titles, ["---"] * len(titles), *rows))


def _accuracies(measured: Sequence[Measured]) -> str:
    if not measured:
        return "Not measured. `dfml evaluate FOLDER --json FOLDER/evaluation.json` does, and adds it here."
    rows = [
        (
            f"{escaped(m.dataset)} {escaped(m.part)}",
            f"{m.way}-way {m.shot}-shot",
            escaped(m.head),
            f"{m.mean:.1f} ± {m.ci95:.1f} %",
            f"{m.tasks:,}",
        )
        for m in measured
    ]
    return _table(("classes of", "task", "head", "accuracy", "tasks"), rows)


def _results(measured: Sequence[Measured]) -> list[dict[str, Any]]:
    """What Hugging Face reads of accuracies."""
    return [
        {
            "task": {"type": "image-classification", "name": f"{m.way}-way {m.shot}-shot, {shown(m.head, 80)}"},
            "dataset": {"type": shown(m.dataset, 80), "name": f"{shown(m.dataset, 80)} {shown(m.part, 80)}"},
            "metrics": [{"type": "accuracy", "value": m.mean, "name": f"percent, ± {m.ci95:.1f}"}],
        }
        for m in measured
    ]
