"""Every number in the README and the docs comes from a committed result file."""

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
spec = importlib.util.spec_from_file_location("table", ROOT / "results" / "table.py")
table = importlib.util.module_from_spec(spec)
spec.loader.exec_module(table)


@pytest.mark.parametrize("page", table.PAGES)
def test_the_tables_are_those_of_the_result_files(page):
    text = (ROOT / page).read_text()
    assert "<!-- table" in text
    assert table.filled(text) == text, "run `python results/table.py --write`"


def test_a_cell_is_the_mean_over_seeds(tmp_path, monkeypatch):
    monkeypatch.setattr(table, "HERE", tmp_path)
    for seed, mean in enumerate((40.0, 44.0)):
        result = [{"head": "prototype", "shot": 1, "mean": mean, "ci95": 0.5}]
        (tmp_path / f"chorus-{seed}.json").write_text(json.dumps(result))
    assert table.cell(table.runs("chorus"), head="prototype", shot=1) == "42.0 ± 0.5"
    assert table.cell(table.runs("chorus"), head="prototype", shot=5) == "n/a"
