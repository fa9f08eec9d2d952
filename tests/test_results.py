"""Every number in the README and the docs comes from a committed result file."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dfml.apis.blackbox import ApiSpec
from dfml.cli import parser
from dfml.config import override
from dfml.methods import find_method
from dfml.recovery.inversion import EFFICIENT

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"
FOLDERS = sorted(path.name for path in RESULTS.iterdir() if path.is_dir() and path.name != "__pycache__")
PRETENDED = f"""#!{sys.executable}
import json, sys
from pathlib import Path
name, words = Path(sys.argv[0]).name, sys.argv[1:]
if name == "dfml":
    with (Path(__file__).parent.parent / "said").open("a") as said:
        said.write(json.dumps(words) + "\\n")
for option, word in zip(words, words[1:]):
    if option in ("--json", "--out") and word.endswith(".json"):
        Path(word).write_text("{{}}")
if words[:2] == ["bench", "show"]:
    Path(words[-1]).mkdir()
    (Path(words[-1]) / "laptop-cifar-fs-queries.png").touch()
"""
sys.path.insert(0, str(RESULTS))
import prose  # noqa: E402
import table  # noqa: E402


@pytest.mark.parametrize("page", table.PAGES)
def test_the_tables_are_those_of_the_result_files(page):
    text = (ROOT / page).read_text()
    assert re.search("<!-- (table|bench) ", text)
    assert table.filled(text) == text, "run `python results/table.py --write`"


def test_a_cell_is_the_mean_over_seeds(tmp_path, monkeypatch):
    monkeypatch.setattr(prose, "HERE", tmp_path)
    for seed, mean in enumerate((40.0, 44.0)):
        result = [{"head": "prototype", "shot": 1, "mean": mean, "ci95": 0.5}]
        (tmp_path / "some").mkdir(exist_ok=True)
        (tmp_path / "some" / f"chorus-{seed}.json").write_text(json.dumps(result))
        (tmp_path / "some" / f"chorus-{seed}-centred.json").write_text(json.dumps(result * 2))  # another setting
    assert table.runs("some/chorus") == ["some/chorus-0", "some/chorus-1"]
    assert table.cell(table.runs("some/chorus"), head="prototype", shot=1) == "42.0 ± 0.5"
    assert table.cell(table.runs("some/chorus"), head="prototype", shot=5) == "n/a"


@pytest.fixture
def one_row(tmp_path, monkeypatch):
    """A bench folder of one table with one row, at 30 and 40 percent."""
    monkeypatch.setattr(prose, "HERE", tmp_path)
    row = {"row": "random", "label": "Random", "series": "", "x": None, "cells": ["random-0"], "published": []}
    told = {"format": 1, "table": "tab:ss", "title": "", "scale": "laptop", "dataset": "cifar-fs", "axis": None}
    measured = {"dataset": "cifar-fs", "part": "test", "way": 5, "tasks": 9, "head": "finetune", "ci95": 1.0}
    cell = {"format": 1, "results": [measured | {"shot": shot, "mean": mean} for shot, mean in ((1, 30.0), (5, 40.0))]}
    for name, content in (("tables/laptop-cifar-fs-tab-ss", told | {"rows": [row]}), ("cells/random-0", cell)):
        path = tmp_path / "bench" / f"{name}.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(content))


def test_a_number_in_a_sentence_is_that_of_the_files(one_row):
    said = 'It gains <!-- n .1f ss("random", 5) - ss("random", 1) -->3<!-- end --> points.'
    assert prose.quoted(said) == said.replace("-->3<!--", "-->10.0<!--")
    with pytest.raises(LookupError, match="0 results of 'chorus' at 5 shots under finetune"):
        prose.quoted('<!-- n .1f ss("chorus", 5) -->50.0<!-- end -->')


def test_the_price_expected_of_recovery_is_the_one_measured():
    endpoints = json.loads((RESULTS / "reach" / "reach.json").read_text())["endpoints"].values()
    each = [api["queries_per_image"] for apis in endpoints for api in apis]
    images = EFFICIENT.images_per_class * 5
    assert EFFICIENT.expected_queries(5) / images == pytest.approx(sum(each) / len(each), rel=0.02)

    # Whole runs with boundary sets among theirs: 10 visits, as results/accuracy/make.sh has it.
    spent = [run["queries"] for run in json.loads((RESULTS / "accuracy" / "bidf-mkd-10-queries.json").read_text())]
    apis = [ApiSpec(name=str(number), classes=tuple("abcde"), image=(3, 32, 32)) for number in range(10)]
    method = find_method("bidf-mkd")
    config = override(method.PRESETS["default"], ["schedule.visits=10"])
    planned = method.plan(config, apis, budget=None, budget_per_api=None)
    assert sum(method.expected(planned, apis)) == pytest.approx(sum(spent) / len(spent), rel=0.05)


def test_no_result_lies_loose():
    loose = {path.name for path in RESULTS.iterdir() if path.is_file()}
    assert loose == {"make.sh", "prose.py", "real_tables.py", "setup.sh", "table.py"}, (
        "results belong in a folder with the commands that made them"
    )


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_folder_has_its_commands(folder):
    script = RESULTS / folder / "make.sh"
    assert os.access(script, os.X_OK)
    subprocess.run(["bash", "-n", script], check=True)
    assert f"results/{folder}/make.sh CIFAR_FS WORK" in script.read_text()
    assert list((RESULTS / folder).rglob("*.json"))


def test_one_script_calls_them_all():
    (called,) = re.findall(r"^for name in (.+); do$", (RESULTS / "make.sh").read_text(), re.MULTILINE)
    assert sorted(called.split()) == FOLDERS


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A copy of the scripts, run whole where `dfml` and `python` only write what they are told to write."""
    place = tmp_path_factory.mktemp("made")
    for script in ("make.sh", "setup.sh", *(f"{folder}/make.sh" for folder in FOLDERS)):
        (place / "results" / script).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(RESULTS / script, place / "results" / script)
    (place / "docs").mkdir()
    (place / "cifar-fs").mkdir()
    (place / "bin").mkdir()
    for name in ("dfml", "python"):
        (place / "bin" / name).write_text(PRETENDED)
        (place / "bin" / name).chmod(0o755)
    paths = os.pathsep.join([str(place / "bin"), os.environ["PATH"]])
    subprocess.run(["results/make.sh", "cifar-fs", "work"], cwd=place, env=os.environ | {"PATH": paths}, check=True)
    return place


def test_the_commands_write_the_results_that_are_here(made):
    def written(root):
        files = (path.relative_to(root) for path in root.rglob("*.json"))
        return {str(path) for path in files if path.parts[0] not in ("bench", "real")}  # named by their content

    assert written(RESULTS) == written(made / "results"), "a make.sh says what is committed, no more and no less"


COMMITTED = {path.stem: json.loads(path.read_text()) for path in sorted((RESULTS / "bench" / "tables").glob("*.json"))}


@pytest.mark.parametrize("name", COMMITTED)
def test_a_table_is_planned_as_it_would_be_now(name):
    """So no cell stands in it that was measured under other settings, or when its method meant something else."""
    assert table.planned(COMMITTED[name]) == COMMITTED[name], "run `python results/table.py --write`"


def test_every_cell_stands_in_a_table():
    shown = {cell for told in COMMITTED.values() for row in told["rows"] for cell in row["cells"]}
    assert {path.stem for path in (RESULTS / "bench" / "cells").glob("*.json")} <= shown, "delete what nobody shows"


def test_the_commands_run_the_tables_that_are_here(made):
    said = [parser().parse_args(json.loads(line)) for line in (made / "said").read_text().splitlines()]
    run = [args for args in said if args.verb == "bench" and args.table not in ("show", "real")]
    mixed = {"tab:mh": "mh", "fig:apiacc_all": "mh"}
    told = {(a.table, a.scale, mixed.get(a.table, a.dataset or "cifar-fs"), a.seeds) for a in run}
    assert told == {tuple(one[key] for key in ("table", "scale", "dataset", "seeds")) for one in COMMITTED.values()}


def test_the_commands_are_understood(made):
    said = [json.loads(line) for line in (made / "said").read_text().splitlines()]
    assert {command[0] for command in said} == {"zoo", "learn", "evaluate", "ledger", "bench"}
    for command in said:
        parser().parse_args(command)  # ends the test where it does not know a word
