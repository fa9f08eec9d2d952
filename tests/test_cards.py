"""Model cards: what Hugging Face reads, what people read, and nothing that a stranger's name could smuggle in."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dfml.apis.blackbox import ApiSpec, Terms
from dfml.apis.local.function import FunctionApi
from dfml.cards import OURS, Measured, Teacher, classifier_card, escaped, run_card, write_card
from dfml.cli import main
from dfml.learning import learn

EVIL = "<img src=x onerror=alert(1)> | [x](http://evil.example) `rm` www.evil.example\n---\nlicense: mit\n# big"
TOLD = {"method": "chorus", "dfml": "9", "queries": 5, "apis": [EVIL]}


def front_matter(card: str) -> dict[str, Any]:
    """The metadata between the first two lines of dashes, as YAML has it: here every value is JSON, too."""
    _, text, _ = card.split("---\n", 2)
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {key: json.loads(value) for key, _, value in (line.partition(": ") for line in lines)}


def light(images):
    mean = images.mean((1, 2, 3))
    return np.stack([mean, 1 - mean], 1)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A run that cost 40 answers at 3 USD for 1,000."""
    folder = tmp_path_factory.mktemp("cards") / "run"
    spec = ApiSpec(name="lamp", classes=("light", "dark"), image=(3, 8, 8), terms=Terms(price=3.0))
    learn([FunctionApi(light, spec)], folder, settings=["distil.steps=1"], budget=40)
    return folder


def test_a_run_gets_a_card_that_says_who_taught_it_and_at_what_price(run):
    card = (run / "README.md").read_text()
    facts = front_matter(card)
    assert facts["library_name"] == "dfml"
    assert {"few-shot", "data-free"} <= set(facts["tags"])
    assert "license" not in facts, "whoever publishes it chooses one"
    assert "| lamp | 2 | 40 | 0.12 USD |" in card
    assert "`chorus`" in card
    assert "Not measured" in card


def test_what_was_measured_is_added(run):
    evaluation = ["evaluate", str(run), "--tasks", "2", "--way", "2", "--shot", "1", "--head", "prototype"]
    assert main([*evaluation, "--workers", "1", "--json", str(run / "evaluation.json")]) == 0
    (measured,) = json.loads((run / "evaluation.json").read_text())
    facts = front_matter((run / "README.md").read_text())
    (index,) = facts["model-index"]
    assert index["results"][0]["metrics"][0]["value"] == measured["mean"]
    assert "2-way 1-shot" in (run / "README.md").read_text()


def test_a_classifier_gets_one_too(run, tmp_path):
    from dfml import Initialisation

    images = np.stack([np.full((3, 8, 8), value, np.uint8) for value in (10, 20, 230, 240)])
    Initialisation.load(run).adapt(images, ["night", "night", EVIL, EVIL]).save(tmp_path)
    card = (tmp_path / "README.md").read_text()
    assert front_matter(card)["pipeline_tag"] == "image-classification"
    assert "2 classes" in card
    assert "It asks nobody" in card
    assert "**Data-free:**" in card


@pytest.mark.parametrize(
    "card",
    [
        run_card(TOLD, [Teacher(EVIL, 3, 5, None)], [Measured(EVIL, "test", 5, 1, 10, EVIL, 50.0, 1.0)]),
        classifier_card([EVIL, "b"], TOLD, asks=[EVIL]),
    ],
)
def test_a_name_is_never_markup(card):
    facts = front_matter(card)
    assert "license" not in facts
    body = card.split("---\n", 2)[2].replace(OURS, "")
    assert not re.search(r"(?<!\\)[<>]", body), "no HTML"
    assert not re.search(r"(?<!\\)\]\(|http:|www\.", body), "no link"
    assert "\n# big" not in body
    rows = [line for line in body.splitlines() if line.startswith("|")]
    assert all(len(re.findall(r"(?<!\\)\|", row)) in (5, 6) for row in rows), "no row has more cells than it should"


def test_escaping_keeps_plain_words_readable():
    assert escaped("glyphs-000, Latin capital a (bold)") == "glyphs-000, Latin capital a (bold)"


def test_not_data_free_is_said_and_not_tagged():
    card = run_card(TOLD | {"taught_with": {"pictures": 1200}}, [])
    assert "**Not data-free:** also taught with 1,200 pictures" in card
    assert "data-free" not in front_matter(card)["tags"]


def test_a_card_that_somebody_made_their_own_is_left_alone(tmp_path):
    write_card(tmp_path, run_card(TOLD, []))
    write_card(tmp_path, run_card(TOLD, [Teacher("new", 2, 1, None)]))
    assert "| new |" in (tmp_path / "README.md").read_text(), "ours is written anew"
    (tmp_path / "README.md").write_text("# Mine")
    write_card(tmp_path, run_card(TOLD, []))
    assert (tmp_path / "README.md").read_text() == "# Mine"
