"""`dfml bench`, a whole table on glyphs, and what is shown of it."""

import json

import pytest

from dfml.cli import main


def bench(*arguments):
    return main(["bench", *(str(argument) for argument in arguments)])


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """The main table with every row."""
    folder = tmp_path_factory.mktemp("bench")
    places = ("--out", folder / "results", "--work", folder / "work")
    assert bench("tab:ss", "--scale", "smoke", *places) == 0
    return folder


def test_every_row_is_measured_under_both_heads(done, capsys):
    cells = [json.loads(path.read_text()) for path in (done / "results" / "cells").glob("*.json")]
    assert len(cells) == 10
    heads = {cell["row"]: {(r["head"], r["shot"]) for r in cell["results"]} for cell in cells}
    both = ("finetune", "prototype")
    for row in ("random", "single-dfkd", "distill-avg", "white-box", "vanilla", "bidf-mkd", "real-maml"):
        assert heads[row] == {(head, shot) for head in both for shot in (1, 5)}
    assert heads["chorus"] == {(head, shot) for head in (*both, "answers") for shot in (1, 5)}
    assert heads["best-api"] == {("direct", 1), ("direct", 5)}
    assert heads["api-features"] == {("class-means", 1), ("class-means", 5)}
    spent = {cell["row"]: cell["queries"] for cell in cells}
    assert spent["random"] == spent["real-maml"] == spent["white-box"] == 0
    assert spent["chorus"] == 3 * 64
    assert 0 < spent["distill-avg"] < spent["bidf-mkd"]


def test_a_second_time_nothing_is_left_to_do_and_tables_share(done, capsys):
    places = ("--out", done / "results", "--work", done / "work")
    assert bench("tab:zofo", *places) == 0
    assert "0 cells to run, 2 done" in capsys.readouterr().out


def test_show_prints_markdown_and_writes_latex_and_figures(done, capsys):
    assert bench("fig:apiacc", "--out", done / "results", "--work", done / "work") == 0
    assert bench("show", done / "results", "--out", done / "shown") == 0
    text = capsys.readouterr().out
    assert "### tab:ss" in text
    assert text.count("| `chorus` |") == 3
    latex = (done / "shown" / "smoke-glyphs-tab-ss.tex").read_text()
    assert latex.count(r"$\pm$") == text.partition("### tab:ss")[2].partition("###")[0].count("±")
    assert (done / "shown" / "smoke-glyphs-fig-apiacc.svg").read_text().count("<svg") == 1
    assert (done / "shown" / "smoke-glyphs-fig-apiacc.png").read_bytes().startswith(b"\x89PNG")


def test_results_go_to_a_folder_of_their_own_unless_told(done, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert bench("tab:ss", "--rows", "random", "--work", done / "work") == 0
    assert [path.name for path in tmp_path.iterdir()] == ["bench-results"]
    assert len(list((tmp_path / "bench-results" / "cells").glob("random-*.json"))) == 1
    assert bench("show") == 1  # some rows make no table
    assert "bench-results holds no tables" in capsys.readouterr().err


def test_mistakes_are_one_sentence(tmp_path, capsys):
    assert bench("tab:none", "--out", tmp_path) == 1
    assert bench("show", tmp_path) == 1
    assert bench("tab:ss", "--dataset", "cifar-fs", "--out", tmp_path) == 1
    messages = capsys.readouterr().err.strip().splitlines()
    assert len(messages) == 3
    assert "unknown table" in messages[0]
    assert "holds no tables" in messages[1]
    assert "cifar-fs needs a data folder" in messages[2]


def test_the_price_of_the_published_setting_is_told_beforehand():
    from dfml.bench.catalogue import make_table
    from dfml.bench.estimate import cell_cost
    from dfml.bench.scales import PAPER

    rows = {row.cell.row: row.cell for row in make_table("tab:ss", PAPER).rows}
    assert cell_cost(rows["bidf-mkd"])[0] == 300 * 2 * 3_030_000, "3.03 million queries a set, two sets a visit"
    assert cell_cost(rows["distill-avg"])[0] == 100 * 3_030_000
    assert cell_cost(rows["chorus"])[0] == 100 * 5_000
    assert cell_cost(rows["random"])[0] == cell_cost(rows["api-features"])[0] == 0
