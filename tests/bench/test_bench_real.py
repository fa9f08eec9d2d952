"""The table of real APIs, on APIs whose knowledge is known: rows, costs, and nothing asked twice."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from dfml.apis.blackbox import ApiSpec, Terms
from dfml.apis.local.function import FunctionApi
from dfml.bench.cells import digest
from dfml.bench.real import known, run_real
from dfml.bench.real_cells import REVISIONS
from dfml.bench.real_rows import RealTable, alone, together
from dfml.bench.results import read_tables
from dfml.bench.show import markdown
from dfml.cli import main
from dfml.episode import Episode
from dfml.errors import BudgetExceeded, ConfigError
from dfml.evaluation.remembered import Remembered

TABLE = RealTable(dataset="glyphs", way=3, shots=(1, 2), query=4, tasks=3)


class Asked:
    """An API with four classes by mean brightness, or one that answers at random; it counts what it is asked about."""

    def __init__(self, name, *, random=False, **facts):
        self.count, self.draws = 0, np.random.default_rng(0)
        self.random = random
        spec = ApiSpec(name=name, classes=("black", "grey", "light grey", "white"), image=(1, 16, 16), **facts)
        self.spec, self.api = spec, FunctionApi(self.answer, spec)

    def answer(self, images):
        self.count += len(images)
        level = images.reshape(len(images), -1).mean(1, keepdims=True)
        scores = np.exp(-60 * (level - np.linspace(0, 1, 4)) ** 2)
        if self.random:
            scores = self.draws.dirichlet(np.full(4, 0.3), len(images))
        return scores / scores.sum(1, keepdims=True)

    def __call__(self, images):
        return self.api(images)


@pytest.fixture
def episode():
    """Three classes that differ in brightness, one shot each."""
    levels, labels = torch.tensor([0.1, 0.5, 0.9]), torch.arange(3)
    query_labels = labels.repeat_interleave(5)
    noise = 0.05 * torch.rand(15, 1, 16, 16, generator=torch.Generator().manual_seed(0))
    flat = torch.ones(1, 1, 16, 16)
    return Episode(
        support=levels.view(-1, 1, 1, 1) * flat,
        support_labels=labels,
        query=levels[query_labels].view(-1, 1, 1, 1) * flat + noise,
        query_labels=query_labels,
        classes=("a", "b", "c"),
    )


def test_an_api_that_sees_the_difference_tells_new_classes_apart(episode):
    assert alone(Asked("sees"), 1)(episode) == [(1.0, 15)]
    assert alone(Asked("dice", random=True), 1)(episode)[0].right < 0.8


def test_one_that_answers_at_random_does_not_count_beside_it(episode):
    assert together([Asked("dice", random=True), Asked("sees"), Asked("die", random=True)], 1)(episode) == [(1.0, 45)]


def test_every_row_says_what_it_cost_and_nothing_is_asked_twice(tmp_path):
    apis = [Asked("one"), Asked("two")]
    run_real(TABLE, apis, folder=tmp_path)
    asked = [api.count for api in apis]
    most = 3 * 3 * ((1 + 1 + 4) + (2 + 4))  # one shot is also asked about mirrored
    assert 0 < asked[0] == asked[1] <= most
    cells = [json.loads(path.read_text()) for path in (tmp_path / "cells").glob("*.json")]
    spent = {cell["row"]: {r["queries_per_prediction"] for r in cell["results"]} for cell in cells}
    assert spent == {"random": {0}, "api:one": {1}, "api:two": {1}, "apis": {2}}
    for cell in cells:
        for result in cell["results"]:
            assert (result["dataset"], result["part"], result["tasks"], result["seed"]) == ("glyphs", "val", 3, 0)
            assert {"mean", "ci95", "shot", "way"} <= result.keys()
    both = next(cell for cell in cells if cell["row"] == "apis")
    assert both["apis"]["one"]["answers on file"] == asked[0]

    for cell in (tmp_path / "cells").glob("*.json"):
        cell.unlink()
    run_real(TABLE, apis, folder=tmp_path)  # all rows again: the ledgers have every answer
    assert [api.count for api in apis] == asked
    shown = markdown(read_tables(tmp_path)[0])
    assert "| `apis` | all 2, each weighed by its answers about the support set | 2 | class-means |" in shown


def test_a_finished_row_is_not_run_again(tmp_path):
    run_real(TABLE, [Asked("one")], folder=tmp_path, only=["random"])
    (begun,) = read_tables(tmp_path)
    assert [(line.row, len(line.finished)) for line in begun.lines] == [("random", 1), ("api:one", 0)]
    assert markdown(begun).endswith("|  | - | - | - |  |")
    running = []
    run_real(TABLE, [Asked("one")], folder=tmp_path, on_task=running.append)
    assert {task.what.partition(",")[0] for task in running} == {"api:one"}
    assert (running[-1].done, running[-1].spent.usd) == (running[-1].total, None)


def stems(folder):
    """The cells of every row of the table in a folder."""
    (file,) = (folder / "tables").glob("*.json")
    return {row["label"]: row["cells"][0] for row in json.loads(file.read_text())["rows"]}


def finished(folder):
    (table,) = read_tables(folder)
    return [(line.row, len(line.finished)) for line in table.lines]


def test_some_apis_or_rows_add_to_the_table_and_take_nothing_from_it(tmp_path):
    run_real(TABLE, [Asked("one"), Asked("two")], folder=tmp_path)
    before = stems(tmp_path)
    run_real(TABLE, [Asked("three")], folder=tmp_path, only=["api"])
    whole = [("random", 1), ("api:one", 1), ("api:two", 1), ("api:three", 1), ("apis", 1)]
    assert finished(tmp_path) == whole
    assert before.items() <= stems(tmp_path).items()
    run_real(TABLE, [Asked("two"), Asked("one"), Asked("three")], folder=tmp_path)
    assert finished(tmp_path) == [*whole, ("apis", 1)]  # of two, and of three
    assert before.items() <= stems(tmp_path).items()


def test_a_table_on_other_tasks_is_another_one(tmp_path):
    run_real(TABLE, [Asked("one"), Asked("two")], folder=tmp_path)
    run_real(replace(TABLE, tasks=2), [Asked("one")], folder=tmp_path)
    assert finished(tmp_path) == [("random", 1), ("api:one", 1)]


def test_cells_of_other_rules_are_neither_shown_nor_taken_for_new_ones(tmp_path, monkeypatch):
    run_real(TABLE, [Asked("one"), Asked("two")], folder=tmp_path)
    before = stems(tmp_path)
    monkeypatch.setitem(REVISIONS, "api", 2)
    run_real(TABLE, [Asked("one")], folder=tmp_path, only=["random"])
    assert finished(tmp_path) == [("random", 1), ("api:one", 0), ("apis", 1)]
    running = []
    run_real(TABLE, [Asked("one"), Asked("two")], folder=tmp_path, on_task=running.append)
    assert {task.what.partition(",")[0] for task in running} == {"api:one", "api:two"}
    after = stems(tmp_path)
    changed = {label for label in after if after[label] != before[label]}
    assert changed == {label for label in after if "itself" in label}


def test_the_committed_cells_are_of_the_present_rules():
    files = sorted((Path(__file__).parent.parent.parent / "results" / "real" / "cells").glob("*.json"))
    assert files
    for file in files:
        cell = json.loads(file.read_text())
        row, config = cell["row"], cell["config"]
        assert file.stem == f"{row.replace(':', '-')}-{digest(config)}-{cell['seed']}"
        assert config.get("revision", 1) == REVISIONS.get(row.partition(":")[0], 1), f"{file.name} has to be made again"


def test_rows_that_are_not_there_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="no row 'apps'"):
        run_real(TABLE, [Asked("one"), Asked("two")], folder=tmp_path, only=["apps"])


def test_apis_that_cost_something_want_a_budget(tmp_path):
    api = Asked("paid", terms=Terms(price=1.5))
    with pytest.raises(ConfigError, match="--budget-per-api 108 or less"):
        run_real(TABLE, [api], folder=tmp_path)
    assert api.count == 0
    with pytest.raises(BudgetExceeded):
        run_real(TABLE, [api], folder=tmp_path, budget_per_api=20)
    assert api.count <= 20


def test_equal_images_in_one_call_are_asked_about_once(tmp_path):
    from dfml.apis.ledger.ledger import Ledger

    api, image = Asked("one"), torch.rand(1, 1, 8, 8)
    with Ledger(tmp_path / "l.sqlite") as ledger:
        answers = Remembered(api, ledger)(torch.cat([image, 1 - image, image]))
    assert api.count == 2
    assert torch.equal(answers[0], answers[2])
    assert not torch.equal(answers[0], answers[1])


@pytest.mark.parametrize(
    ("own", "count"),
    [
        (["Apple"], 1),
        (["pineapple", "apple pie"], 0),
        (["Granny Smith (apple)", "tank, aquarium fish"], 2),
        (["fish", "aquarium"], 0),
    ],
)
def test_a_class_is_known_by_its_whole_name(own, count):
    assert known(own, ["apple", "aquarium_fish", "lamp"]) == f"{count} of 3"


def test_names_as_data_sets_write_them():
    assert known(["Haemorhous cassinii (Cassin's Finch)"], ["098.Cassin_Finch", "006.Least_Auklet"]) == "1 of 2"
    assert "ImageNet" in known(["tench"], ["n01440764", "n01855672"])


def test_by_the_command_line(tiny_zoo, tmp_path, capsys):
    """A student learned from a zoo, on classes of glyphs that nobody saw."""
    run, out = str(tmp_path / "run"), tmp_path / "out"
    small = ["--set", "net.width=4", "--set", "distil.steps=4", "--set", "queries=64"]
    assert main(["learn", str(tiny_zoo), "--out", run, *small]) in (0, None)
    words = ["bench", "real", "--apis", str(tiny_zoo), "--run", run, "--tasks", "2", "--shot", "1", "--out", str(out)]
    assert main(words) in (0, None)
    rows = [line.split("|")[1].strip(" `") for line in capsys.readouterr().out.splitlines() if line.startswith("| `")]
    assert rows[:3] == ["random", "student", "student"]
    assert rows[-11:] == ["apis", *["live-alone"] * 5, *["live"] * 5]
    lived = [json.loads(path.read_text()) for path in (out / "cells").glob("live*.json")]
    for cell in lived:
        spent = [result["queries_per_prediction"] for result in cell["results"]]
        assert spent == pytest.approx([0, 0.1, 0.3, 0.5, 1], abs=0.01)  # of 75 images
    assert len(list(Path(out / "ledger").glob("*.sqlite"))) == 3
    assert main(["bench", "real"]) == 1
