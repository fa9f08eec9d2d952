"""The tutorial notebook, cell after cell, as whoever opens it runs it."""

import json
import re
from pathlib import Path
from typing import Any

import pages
from dfml.apis.ledger import spending

TUTORIAL = pages.ROOT / "docs" / "tutorial.ipynb"
CELLS = json.loads(TUTORIAL.read_text())["cells"]


def test_it_runs_from_top_to_bottom(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(CELLS):
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"{TUTORIAL.name}, cell {number}", "exec"), names)
    assert spending(Path("run"))["queries"] == 2000, "the budget that it shows"
    assert names["after"] > names["before"] + 0.04, "what it is all for"
    assert Path("classifier/model.onnx").exists()


def test_it_is_kept_without_what_a_run_leaves_behind():
    for cell in CELLS:
        assert cell["cell_type"] == "markdown" or (cell["outputs"], cell["execution_count"]) == ([], None)


def test_its_links_lead_somewhere():
    text = "".join("".join(cell["source"]) for cell in CELLS if cell["cell_type"] == "markdown")
    for target in re.findall(r"\]\(([^)#]+)", text):
        assert (TUTORIAL.parent / target).exists(), target
