"""Tables are data: complete at every scale, sharing what is the same, with the paper's own numbers."""

import pytest

from dfml.bench.catalogue import TABLES, make_table
from dfml.bench.published import published
from dfml.bench.scales import LAPTOP, PAPER, SCALES, SMOKE, WORKSTATION
from dfml.bench.tables import REFERENCES, ROWS
from dfml.errors import ConfigError


@pytest.mark.parametrize("scale", SCALES.values(), ids=list(SCALES))
@pytest.mark.parametrize("name", TABLES)
def test_every_table_can_be_planned_at_every_scale(name, scale):
    table = make_table(name, scale)
    assert table.cells
    assert len({cell.stem for cell in table.cells}) == len(table.cells), "different cells, different names"
    for cell in table.cells:
        assert cell.preset is None or scale in (WORKSTATION, PAPER)


def test_tables_share_their_cells():
    """The ablation's ends and the zero-order comparison are rows of the main table."""
    main = {cell.stem for cell in make_table("tab:ss", LAPTOP).cells}
    ablation = make_table("tab:ablation", LAPTOP)
    vanilla, distil, boundary, both = (row.cells[0].stem for row in ablation.rows)
    assert {vanilla, both} <= main
    assert not {distil, boundary} & main
    first, zero, *few = make_table("tab:zofo", LAPTOP).rows
    assert {cell.stem for row in (first, zero) for cell in row.cells} <= main
    assert {draw.count for row in few for draw in row.cell.apis} == {LAPTOP.few_apis}
    ten = [row for row in make_table("tab:numberapi", LAPTOP).rows if row.x == LAPTOP.apis]
    assert {cell.stem for cell in ten[0].cells} <= main


def test_every_api_is_visited_however_many_there_are():
    for row in make_table("tab:numberapi", LAPTOP).rows:
        (visits,) = (int(one.partition("=")[2]) for one in row.cell.settings if one.startswith("schedule.visits="))
        assert visits >= sum(draw.count for draw in row.cell.apis), f"{row.label}: {visits} visits"


def test_the_components_get_a_fair_part_of_the_steps():
    """Distillation is a step a visit, so with few visits its switches could change nothing."""
    for row in make_table("tab:ablation", LAPTOP).rows:
        told = dict(setting.split("=") for setting in row.cell.settings)
        assert int(told["schedule.visits"]) >= 0.2 * int(told["schedule.iterations"])
        assert len(row.cells) == LAPTOP.seeds


def test_apis_are_shown_by_data_set_and_architecture():
    rows = make_table("fig:apiacc_all", PAPER).rows
    assert len({row.label for row in rows}) == 9
    drawn = sorted(draw.first for row in rows for draw in row.cell.apis)
    assert drawn == list(range(PAPER.mixed_apis)), "every API of tab:mh in one group"
    assert next(row for row in rows if row.label == "resnet18 on cub").cell.apis[0].first == 8


def test_what_asks_nobody_is_the_same_whoever_could_be_asked():
    cells = {
        row.cells[0].stem
        for name in ("tab:ss", "tab:sh")
        for row in make_table(name, LAPTOP).rows
        if row.cell.row == "real-maml"
    }
    assert len(cells) == 1


def test_the_main_table_has_every_row_and_each_seed():
    table = make_table("tab:ss", LAPTOP)
    assert [row.cell.row for row in table.rows] == list(ROWS)
    assert [len(row.cells) for row in table.rows] == [3, 1, 3, 3, 3, 3, 3, 3, 1, 3]
    assert {cell.evaluation.tasks for cell in table.cells if cell.row not in REFERENCES} == {LAPTOP.tasks}


def test_the_papers_columns_replay_as_many_shots_as_they_are_tested_with():
    cells = make_table("tab:ss", PAPER, seeds=1, rows=["bidf-mkd", "random"]).cells
    told = [(cell.row, cell.evaluation.shots, [s for s in cell.settings if "shot" in s]) for cell in cells]
    assert told == [
        ("random", (1, 5), []),
        ("bidf-mkd", (1,), ["replay.shot=1"]),
        ("bidf-mkd", (5,), ["replay.shot=5"]),
    ]
    assert len({cell.run_name for cell in cells}) == 3


@pytest.mark.parametrize(("scale", "matched"), [(WORKSTATION, []), (PAPER, ["bidf-mkd", "real-maml"])])
def test_only_the_paper_learns_a_network_for_every_column(scale, matched):
    table = make_table("tab:ss", scale, seeds=1, rows=["random", "bidf-mkd", "real-maml"])
    shots = {row.cell.row: [cell.evaluation.shots for cell in row.cells] for row in table.rows}
    assert [row for row, columns in shots.items() if columns == [(1,), (5,)]] == matched
    assert [row for row, columns in shots.items() if columns != [(1, 5)]] == matched


def test_rows_can_be_chosen_and_unknown_ones_are_named():
    assert [row.cell.row for row in make_table("tab:ss", SMOKE, rows=["chorus"]).rows] == ["chorus"]
    with pytest.raises(ConfigError, match="no row 'corus'; did you mean 'chorus'"):
        make_table("tab:ss", SMOKE, rows=["corus"])
    with pytest.raises(ConfigError, match="unknown table or figure 'tab:zoof'; did you mean 'tab:zofo'"):
        make_table("tab:zoof", SMOKE)
    with pytest.raises(ConfigError, match="mh belongs to tab:mh"):
        make_table("tab:ss", SMOKE, dataset="mh")


@pytest.mark.parametrize(
    ("table", "dataset", "baseline", "gains"),
    [
        ("tab:ss", "cifar-fs", "distill-avg", (11.24, 20.02)),
        ("tab:ss", "mini-imagenet", "random", (8.15, 18.34)),
        ("tab:sh", "cifar-fs", "distill-avg", (12.76, 21.01)),
        ("tab:sh", "mini-imagenet", "random", (9.35, 18.61)),
        ("tab:sh", "cub", "random", (9.02, 22.87)),
        ("tab:mh", "mh", "distill-avg", (11.21, 17.13)),
        ("tab:ablation", "cifar-fs", "vanilla", (2.35, 3.13)),
        ("tab:dfmeta10way", "cifar-fs", "distill-avg", (9.45, 20.45)),
    ],
)
def test_the_published_gains_are_those_the_papers_text_speaks_of(table, dataset, baseline, gains):
    ours, theirs = (published(table, dataset, key) for key in ("bidf-mkd", baseline))
    for gain, one, other in zip(gains, ours, theirs, strict=True):
        assert one["mean"] - other["mean"] == pytest.approx(gain, abs=0.005)


def test_what_the_paper_does_not_report_has_no_value():
    assert published("tab:ss", "cifar-fs", "chorus") == []
    assert published("queries", "cifar-fs", "bidf-mkd") == []
