"""The page of a real run whose APIs bear hostile names, and the same page opened in a real browser."""

import base64
import io
import json
import re
import shutil
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from dfml.apis.blackbox import ApiSpec
from dfml.apis.local.function import FunctionApi
from dfml.cli import main
from dfml.learning import learn
from dfml.recovery.recovered import ClassKey, RecoveredSet
from dfml.report.page import config_text, duration, report
from dfml.report.pictures import shelves

EVIL = '<script>document.title = "owned"</script>'
CLASSES = (EVIL, '"><img src=x onerror="alert(1)">', "{{ 7 * 7 }}", "unbroken" * 20)
SETTINGS = ["queries=60", "net.width=4", "distil.steps=40", "distil.batch=32"]


def bright_api(name, seed):
    """A softmax over random weights of the mean colour, in NumPy."""
    weights = 20 * np.random.default_rng(seed).normal(size=(3, len(CLASSES)))

    def answer(images):
        scores = np.exp((images.mean((2, 3)) - 0.5) @ weights)
        return scores / scores.sum(1, keepdims=True)

    return FunctionApi(answer, ApiSpec(name=name, classes=CLASSES, image=(3, 16, 16), accuracy=0.875))


def bench(folder):
    """A table and a figure."""
    for kind in ("cells", "tables"):
        (folder / kind).mkdir(parents=True)
    result = {"dataset": "d", "part": "test", "way": 5, "tasks": 600, "head": "finetune", "ci95": 0.5}
    for stem, queries in (("few", 10), ("many", 1000), ("none", 0)):
        results = [result | {"shot": shot, "mean": 30.0 + shot + queries / 100} for shot in (1, 5)]
        told = {"format": 1, "results": results, "queries_per_api": queries, "seconds": {"learn": 60.0}}
        (folder / "cells" / f"{stem}.json").write_text(json.dumps(told))
    for axis in (None, {"name": "queries per API", "log": True}):
        rows = [
            {
                "row": EVIL,
                "label": f"{EVIL} {stem}",
                "x": None,
                "cells": [stem],
                "series": EVIL,
                "published": [{"shot": 1, "mean": 35, "ci95": 1}],
            }
            for stem in ("few", "many", "none")
        ]
        told = {"format": 1, "table": "tab:x", "title": EVIL, "scale": "smoke", "dataset": "d", "axis": axis}
        (folder / "tables" / f"{'figure' if axis else 'table'}.json").write_text(json.dumps(told | {"rows": rows}))


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A run, what the bench left, and one page about both."""
    place = tmp_path_factory.mktemp("someones-home")
    torch.set_num_threads(1)
    learn([bright_api(EVIL, 0), bright_api("b" * 60, 1)], place / "run", settings=SETTINGS)
    result = {"dataset": EVIL, "part": "test", "way": 5, "tasks": 100, "head": "prototype", "ci95": 0.5}
    results = [result | {"shot": shot, "mean": 40.0 + shot} for shot in (1, 5)]
    (place / "run" / "evaluation.json").write_text(json.dumps(results))
    bench(place / "results")
    page = place / "page.html"
    assert main(["report", str(place / "run"), str(place / "results"), "--out", str(page)]) == 0
    return SimpleNamespace(place=place, page=page, html=page.read_text())


class Elements(HTMLParser):
    """Every element of a page with its attributes."""

    def __init__(self, html):
        super().__init__()
        self.found = []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def all(self, tag):
        return [attrs for name, attrs in self.found if name == tag]


def test_strangers_text_stays_text(world):
    elements = Elements(world.html)
    assert not elements.all("script")
    assert not [attrs for _, attrs in elements.found if any(name.startswith("on") for name in attrs)]
    assert "&lt;script&gt;" in world.html
    assert "{{ 7 * 7 }}" in world.html


def test_nothing_is_loaded_from_anywhere(world):
    elements = Elements(world.html)
    sources = [attrs.get("src") or attrs.get("href") for _, attrs in elements.found if {"src", "href"} & attrs.keys()]
    assert sources
    assert all(source.startswith(("data:", "#")) for source in sources)
    assert not re.search(r"url\(|@import", world.html)


def test_the_machine_is_not_in_it(world):
    assert "someones-home" not in world.html
    assert str(world.place) not in world.html


def test_secrets_and_places_are_left_out_of_the_config():
    text = config_text(
        {
            "method": "chorus",
            "headers": {"Authorization": "Bearer hush", "api_key": "hush"},
            "file": "/home/someone/zoo/a.onnx",
            "url": "https://me:hush@example.org/v2/models?token=hush",
            "rate": 0.5,
            "list": ["C:\\Users\\someone\\b.onnx", "1/2"],
        }
    )
    assert not re.search("hush|someone", text)
    for kept in ('method = "chorus"', '"a.onnx"', "https://example.org/v2/models", "rate = 0.5", "b.onnx", "1/2"):
        assert kept in text


def test_every_image_has_words_and_every_table_headers(world):
    elements = Elements(world.html)
    assert all(image["alt"] for image in elements.all("img"))
    assert len(elements.all("img")) == 2 * len(CLASSES) * 4
    assert len(elements.all("table")) == 4
    assert all("scope" in header for header in elements.all("th"))
    for landmark in ("header", "nav", "main", "footer"):
        assert len(elements.all(landmark)) == 1
    assert elements.all("html") == [{"lang": "en"}]
    assert len(elements.all("h1")) == 1


def test_the_numbers_are_those_of_the_run(world):
    text = re.sub(r"<[^>]*>", " ", world.html)
    for number in ("41.0 ± 0.5", "45.0 ± 0.5", "87.5&nbsp;%", "120"):
        assert number in text
    assert re.search(r"\+6\.0\s+\(\+5\.4\)", text), "41 - 35 is 6, or 6 / sqrt(1 + 0.25) intervals"


def test_pictures_come_back_pixel_by_pixel(tmp_path, rng):
    images = torch.randint(0, 256, (3, 3, 5, 5), generator=rng, dtype=torch.uint8)
    probs = torch.tensor([[0.9, 0.1], [0.95, 0.05], [0.6, 0.4]])
    keys = (ClassKey("a", "cat"), ClassKey("a", "dog"))
    RecoveredSet(images.float() / 255, torch.tensor([0, 0, 1]), probs, keys, 9).save(
        tmp_path / "00000-support.safetensors"
    )
    (tmp_path / "00001-support.safetensors").write_bytes(b"half written")
    ((shelf,), total) = shelves(tmp_path)
    (cat, cats), (dog, dogs) = shelf.classes
    assert (total, cat, dog) == (1, "cat", "dog")
    assert [round(p.share, 2) for p in cats] == [0.95, 0.9], "the surest first"
    assert (dogs[0].answer, dogs[0].agrees) == ("cat", False)
    png = base64.b64decode(cats[0].source.removeprefix("data:image/png;base64,"))
    shown = torch.from_numpy(np.asarray(Image.open(io.BytesIO(png))).copy()).permute(2, 0, 1)
    assert torch.equal(shown, images[1])


def test_of_many_apis_some_are_shown(tmp_path):
    for i in range(30):
        keys = (ClassKey(f"api-{i:02}", "x"), ClassKey(f"api-{i:02}", "y"))
        shown = RecoveredSet(torch.zeros(1, 1, 4, 4), torch.tensor([1]), torch.tensor([[0.0, 1.0]]), keys, 1)
        shown.save(tmp_path / f"{i}.safetensors")
    found, total = shelves(tmp_path)
    assert (len(found), total) == (12, 30)
    assert found[0].api == "api-00"
    assert [shelf.left_out for shelf in found] == [1] * 12


def test_a_folder_of_runs_is_compared(world, tmp_path):
    for name in ("one", "two"):
        shutil.copytree(world.place / "run", tmp_path / name)
    page = report(tmp_path)
    assert "What 2 runs learned from APIs" in page
    assert "Accuracy against queries" in page


def test_a_folder_of_something_else_gets_one_sentence(tmp_path, capsys):
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "page.html")]) == 1
    assert "holds neither a run of dfml learn nor results of dfml bench" in capsys.readouterr().err
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0 s"), (59, "59 s"), (90, "2 min"), (3700, "1 h 2 min")])
def test_durations(seconds, text):
    assert duration(seconds) == text


class Visit:
    """The page as one kind of reader sees it."""

    def __init__(self, browser, file, *, width, scheme="light"):
        self.messages, self.requests = [], []
        context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
        self.page = context.new_page()
        self.page.on("console", lambda message: self.messages.append(message.text))
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(file.as_uri())
        self.page.evaluate("for (const d of document.querySelectorAll('details')) d.open = true")

    def ask(self, script):
        return self.page.evaluate(script)


def test_it_opens_without_complaint_and_asks_nobody(browser, world):
    visit = Visit(browser, world.page, width=1200)
    assert visit.messages == []
    assert [url for url in visit.requests if not url.startswith("data:")] == [world.page.as_uri()]
    assert visit.page.title() == "What chorus learned from 2 APIs"
    sizes = visit.ask("[...document.images].map(i => i.complete ? i.naturalWidth : 0)")
    assert sizes == [16] * len(sizes) != []
    assert visit.page.get_by_role("heading", name="Accuracy", exact=True).is_visible()
    assert visit.page.get_by_role("table").count() == 4
    assert visit.page.get_by_role("row").filter(has_text="41.0 ± 0.5").count() >= 1
    assert visit.ask("document.querySelectorAll('svg.chart polyline').length") >= 2


@pytest.mark.parametrize("width", [320, 375, 768, 1200])
def test_no_screen_has_to_be_scrolled_sideways(browser, world, width):
    visit = Visit(browser, world.page, width=width)
    assert visit.ask("document.documentElement.scrollWidth") <= width


CONTRAST = """() => {
  const rgb = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = element => {
    for (let e = element; e; e = e.parentElement) {
      const colour = rgb(getComputedStyle(e).backgroundColor);
      if (colour.length < 4 || colour[3] === 1) return colour;
    }
  };
  const ratios = [];
  const texts = 'h1, h2, p, a, th, td, dt, dd, li, summary, figcaption, pre, .head, .quiet, .wrong, text';
  for (const e of document.querySelectorAll(texts)) {
    const style = getComputedStyle(e);
    const ink = rgb(e.tagName === 'text' ? style.fill : style.color);
    const [a, b] = [light(ink), light(behind(e))].sort((x, y) => y - x);
    ratios.push((a + 0.05) / (b + 0.05));
  }
  return Math.min(...ratios);
}"""
"""the contrast ratio of WCAG 2, as its text defines it"""


def test_light_and_dark_are_both_legible(browser, world):
    papers = {}
    for scheme in ("light", "dark"):
        visit = Visit(browser, world.page, width=375, scheme=scheme)
        assert visit.messages == []
        papers[scheme] = visit.ask("getComputedStyle(document.body).backgroundColor")
        assert visit.ask(CONTRAST) >= 4.5, f"WCAG AA asks for 4.5 in the {scheme}"
    light, dark = (sum(map(int, re.findall(r"\d+", papers[scheme]))) for scheme in ("light", "dark"))
    assert dark < 150 < 600 < light
