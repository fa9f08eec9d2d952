"""What the page is told, as JSON. Names are strangers' text here as there; the page never makes HTML of them."""

from collections.abc import Collection, Sequence
from typing import Any

from dfml import Initialisation
from dfml.errors import shown
from dfml.play.album import MOST_CLASSES, MOST_PICTURES, View
from dfml.play.asking import Heard
from dfml.play.judging import UNSURE, Judgement
from dfml.play.pictures import LARGEST_FILE
from dfml.play.studio import Studio


def state_told(studio: Studio, *, can_export: bool) -> dict[str, Any]:
    """Everything but what is said of the pictures."""
    album = studio.album
    return {
        "title": studio.title,
        "about": about_told(studio.initialisation),
        "fixed": album.fixed,
        "folder": str(studio.folder),
        "saved": studio.saved or album.fixed,
        "line": studio.predict_line,
        "has_report": studio.run is not None,
        "can_export": can_export,
        "notes": list(studio.notes),
        "limits": {"file": LARGEST_FILE, "pictures": MOST_PICTURES, "classes": MOST_CLASSES, "unsure": UNSURE},
        "classes": [{"number": number, "name": name} for number, name in album.classes.items()],
        "pictures": [
            {
                "number": picture.number,
                "name": picture.name,
                "side": picture.thumbnail_side,
                "into": album.class_of(picture.number),
            }
            for picture in album.pictures.values()
        ],
    }


def about_told(initialisation: Initialisation | None) -> str:
    """How the network came to be, in a few words."""
    told = {} if initialisation is None else initialisation.provenance
    words = [shown(told["method"])] if "method" in told else []
    if isinstance(told.get("apis"), list) and isinstance(told.get("queries"), int):
        words.append(f"taught by {len(told['apis']):,} APIs with {told['queries']:,} queries")
    if initialisation is not None and initialisation.caveat:
        words.append(initialisation.caveat)
    return ", ".join(words)


def asking_told(studio: Studio, view: View) -> dict[str, Any]:
    """The switch: whether it is on, who is asked, what it costs. It reads the ledgers, which takes a moment."""
    asking = studio.asking
    if asking is None:
        return {"asking": {"possible": False, "on": False, "why": studio.silent}}
    weights = asking.weights()
    told = {
        "possible": True,
        "on": asking.on,
        "apis": [
            {
                "name": shown(api.spec.name),
                "remote": api.spec.terms.remote,
                "classes": api.spec.way,
                "weight": weights.get(api.spec.name),
            }
            for api in asking.apis
        ],
        "cost": asking.cost(view),
    }
    return {"asking": told}


def judgement_told(view: View, judged: Judgement | None, heard: Heard | None) -> dict[str, Any]:
    """What the classifier says by itself and, where APIs were asked about these very examples, with them."""
    told: dict[str, Any] = {"version": view.version, "classes": [], "said": {}, "left_out": None}
    if judged is not None:
        there = {picture.number for picture in view.new}
        told["classes"] = list(judged.classes)
        told["said"] = {number: _rounded(row) for number, row in judged.said.items() if number in there}
        if judged.left_out is not None:
            told["left_out"] = {"of": judged.left_out.of, "wrong": judged.left_out.wrong}
    return told | heard_told(view, heard, only={picture.number for picture in view.new})


def heard_told(view: View, heard: Heard | None, *, only: Collection[int]) -> dict[str, Any]:
    """What is said with the APIs of the pictures in `only`."""
    if heard is None or heard.version != view.version:
        return {}
    told = {
        "classes": list(heard.classes),
        "said": {number: _rounded(row) for number, row in heard.said.items() if number in only},
        "asked": {number: len(opinions) for number, opinions in heard.opinions.items() if number in only},
        "failures": {shown(name): shown(reason) for name, reason in heard.failures.items()},
    }
    return {"heard": told}


def detail_told(number: int, nearest: Sequence[tuple[int, float]], heard: Heard | None) -> dict[str, Any]:
    """Why: the examples that look most alike, and what each API called the picture."""
    opinions = heard.opinions.get(number, []) if heard is not None else []
    return {
        "nearest": [{"number": other, "cosine": round(cosine, 4)} for other, cosine in nearest],
        "opinions": [
            {"api": shown(opinion.api), "told": [[shown(name, 60), round(share, 4)] for name, share in opinion.told]}
            for opinion in opinions
        ],
    }


def _rounded(row: Any) -> list[float]:
    return [round(float(value), 4) for value in row]
