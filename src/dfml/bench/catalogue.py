"""The paper's tables and figures, and four of ours."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from dfml.bench.cells import ApiSelection, Cell
from dfml.bench.results import COVER, TIME
from dfml.bench.scales import Scale
from dfml.bench.tables import LABELS, RELATIVES, ROWS, VANILLA, Maker, Row, Table
from dfml.errors import ConfigError, nearest
from dfml.zoo.building import mixture


def _methods(make: Maker, **common: Any) -> list[Row]:
    elsewhere = {"white-box": ("tab:zofo", "white-box"), "vanilla": ("tab:ablation", "vanilla")}
    sources = elsewhere if make.table == "tab:ss" else {}
    return [make.row(name, source=sources.get(name), **common) for name in ROWS]


def _ss(make: Maker) -> list[Row]:
    return _methods(make)


def _sh(make: Maker) -> list[Row]:
    return _methods(make, apis=make.select(scenario="sh"))


def _mh(make: Maker) -> list[Row]:
    return _methods(make, apis=make.select(scenario="mh"))


def _ablation(make: Maker) -> list[Row]:
    return [
        make.row("vanilla"),
        make.row("bidf-mkd", label="+ BiDf-MKD", settings=VANILLA[1:], source=(make.table, "distil")),
        make.row("bidf-mkd", label="+ boundary", settings=VANILLA[:1], source=(make.table, "boundary")),
        make.row("bidf-mkd", label="+ both"),
    ]


def _zofo(make: Maker) -> list[Row]:
    """On all APIs by the scale's recipes; and on few with the paper's steps, gradients true and by its estimator."""
    rows = [make.row("white-box", label="first order (white box)"), make.row("bidf-mkd", label="zero order")]
    if not (few := make.scale.few_apis):
        return rows
    apis, seeds = make.select(few), make.seeds or make.scale.lesser_seeds
    visits = (f"schedule.visits={few}",)
    to_the_end = ("recovery.steps=200", "recovery.early_stop=false", "recovery.limit=1000000")
    sphere = ("recovery.estimator=sphere", "recovery.radius=0.005", "recovery.directions=100")
    kinds = [
        ("white-box", "first order, 200 steps", to_the_end),
        ("bidf-mkd", "zero order, q = 100, 200 steps", (*to_the_end, *sphere)),
        ("bidf-mkd", "zero order as above", ()),
    ]
    for name, label, settings in kinds:
        label = f"{few} API{'s' * (few > 1)}: {label}"
        row = make.row(name, label=label, apis=apis, settings=(*visits, *settings), source=("", ""))
        rows.append(replace(row, seeds=seeds))
    return rows


def _number_api(make: Maker) -> list[Row]:
    """Every API is visited as often, however many there are."""
    each = make.scale.visits_per_api
    return [
        make.row(
            "bidf-mkd",
            label=f"{count} API{'s' * (count > 1)}",
            apis=make.select(count),
            settings=(f"schedule.visits={each * count}",) if each else (),
            x=count,
            series=LABELS["bidf-mkd"],
            source=("tab:numberapi", str(count)),
            share=count == make.scale.apis,
        )
        for count in make.scale.api_counts
    ]


def _number_query(make: Maker) -> list[Row]:
    """The paper's estimator with q directions a step, for the same number of steps."""
    exact = () if make.scale.name == "paper" else ("recovery.limit=100000", "recovery.steps=30")
    rows = [
        make.row(
            "bidf-mkd",
            label=f"q = {count}",
            settings=("recovery.estimator=sphere", "recovery.radius=0.005", f"recovery.directions={count}", *exact),
            x=count,
            series="sphere",
            source=("tab:numberquery", str(count)),
        )
        for count in make.scale.directions
    ]
    return [*rows, make.row("white-box", label="white box", series=LABELS["white-box"], share=True)]


def _ten_way(make: Maker) -> list[Row]:
    names = ("random", "best-api", "single-dfkd", "distill-avg", "bidf-mkd", "chorus", "api-features")
    apis, evaluation = make.select(way=10), {"way": 10}
    return [make.row(name, apis=apis, evaluation=evaluation) for name in names]


def _sensitivity(make: Maker) -> list[Row]:
    return [
        make.row(
            "bidf-mkd",
            label=f"lambda_Q = {weight}",
            settings=() if weight == 1.0 else (f"recovery.boundary={weight}",),
            source=(make.table, str(weight)),
            share=weight == 1.0,
        )
        for weight in (0.1, 1.0, 10.0)
    ]


def _shots(make: Maker) -> list[Row]:
    """One line a method; its points are the shots of its results."""
    names = ("distill-avg", "bidf-mkd", "chorus")
    evaluation = {"shots": make.scale.shots}
    if make.scale.name != "paper":
        return [make.row(name, series=LABELS[name], evaluation=evaluation) for name in names]
    matched = [
        make.row(
            "bidf-mkd",
            label=f"BiDf-MKD, K = {shot}",
            series=LABELS["bidf-mkd"],
            settings=(f"replay.shot={shot}",),
            evaluation={"shots": (shot,)},
        )
        for shot in make.scale.shots
    ]
    return [make.row("distill-avg", series=LABELS["distill-avg"], evaluation=evaluation), *matched]


def _queries(make: Maker) -> list[Row]:
    """Accuracy against queries per API; rows without queries are levels to compare with."""
    rows = [make.row(name, share=True, series=LABELS[name]) for name in ("random", "white-box", "api-features")]
    for estimator in ("sphere", "antithetic", "orthogonal", "subspace"):
        radius = "2.0" if estimator == "subspace" else "0.005"
        for limit in make.scale.limits:
            rows.append(
                make.row(
                    "bidf-mkd",
                    label=f"BiDf-MKD, {estimator}, at most {limit} an image",
                    series=f"BiDf-MKD, {estimator}",
                    settings=(
                        f"recovery.estimator={estimator}",
                        f"recovery.radius={radius}",
                        "recovery.directions=4",
                        "recovery.steps=400",
                        f"recovery.limit={limit}",
                    ),
                    source=("", ""),
                )
            )
    for count in make.scale.chorus_queries:
        settings = (f"queries={count}",)
        share = settings[0] in make.scale.recipes["chorus"][1]
        rows.append(make.row("chorus", label=f"chorus, {count}", series="chorus", settings=settings, share=share))
    return rows


def _quality(make: Maker) -> list[Row]:
    """The same classes, taught to APIs from few images (weak), all images (strong), or half of them each (mixed)."""
    (strong,) = make.select()
    weak = replace(strong, zoo=replace(strong.zoo, images_per_class=20 if make.scale.name != "smoke" else 6))
    half = strong.count // 2
    mixed = (replace(weak, count=half), replace(strong, first=half, count=strong.count - half))
    kinds = {"weak": (weak,), "mixed": mixed, "strong": (strong,)}
    return [
        make.row(
            name,
            label=f"{LABELS[name]}, {kind} APIs",
            series=LABELS[name],
            apis=apis,
            share=kind == "strong",
            source=("", ""),
        )
        for name in ("bidf-mkd", "chorus", "api-features")
        for kind, apis in kinds.items()
    ]


def _privacy(make: Maker) -> list[Row]:
    """Runs of the main table, fewer of them: each is a mean over many images."""
    names = ("bidf-mkd", "white-box", "chorus")
    rows = [make.row(name, share=True, measure="privacy", source=("", "")) for name in names]
    return [replace(row, seeds=make.seeds or make.scale.lesser_seeds) for row in rows]


def _relatives(make: Maker) -> list[Row]:
    """Methods that the paper names and does not compare with, between Random and the paper's own."""
    rows = [make.row("random", share=True), *(make.row(name) for name in RELATIVES)]
    for game in ("dfme", "maze"):
        settings = ("recovery.strategy=extraction", f"recovery.extraction.game={game}", *make.scale.extraction)
        rows.append(make.row("bidf-mkd", label=f"BiDf-MKD on images of {game.upper()}", settings=settings))
    return [*rows, make.row("white-box", share=True), make.row("bidf-mkd", share=True)]


def _accuracies(make: Maker) -> list[Row]:
    cell = Cell(row="zoo", method="zoo", apis=make.select(), measure="zoo")
    return [Row(cell=cell, label=f"APIs of {make.dataset}", seeds=1)]


def _all_accuracies(make: Maker) -> list[Row]:
    """The APIs of tab:mh, by data set and architecture."""
    (mixed,) = make.select(scenario="mh")
    groups: dict[tuple[str, str], list[ApiSelection]] = {}
    for number in range(mixed.count):
        groups.setdefault(mixture(number), []).append(replace(mixed, first=number, count=1))
    return [
        Row(
            cell=Cell(row="zoo", method="zoo", apis=tuple(apis), measure="zoo"),
            label=f"{arch} on {dataset}",
            seeds=1,
        )
        for (dataset, arch), apis in sorted(groups.items())
    ]


TABLES: dict[str, tuple[str, Callable[[Maker], list[Row]], dict[str, Any] | None]] = {
    "tab:ss": ("API-SS: one data set, one architecture", _ss, None),
    "tab:sh": ("API-SH: one data set, three architectures", _sh, None),
    "tab:mh": ("API-MH: three data sets, three architectures", _mh, None),
    "tab:ablation": ("Components of BiDf-MKD", _ablation, None),
    "tab:zofo": ("Zero-order against true gradients", _zofo, None),
    "tab:numberapi": ("Number of APIs", _number_api, {"name": "APIs", "log": False, "beside": COVER}),
    "tab:numberquery": ("Queries a gradient estimate", _number_query, None),
    "tab:dfmeta10way": ("APIs and tasks of ten classes", _ten_way, None),
    "tab:sentivity": ("Weight of the boundary term", _sensitivity, None),
    "fig:numshots": ("More shots", _shots, {"name": "shots", "log": False}),
    "fig:apinum": ("Number of APIs", _number_api, {"name": "APIs", "log": False, "beside": COVER}),
    "fig:querynum": (
        "Queries a gradient estimate",
        _number_query,
        {"name": "directions q", "log": False, "beside": TIME},
    ),
    "fig:apiacc": ("Reported accuracy of the APIs", _accuracies, None),
    "fig:apiacc_all": ("Reported accuracy by data set and architecture", _all_accuracies, None),
    "fig:vix": ("Recovered images beside the nearest real ones", _privacy, None),
    "queries": ("Accuracy against queries", _queries, {"name": "queries per API", "log": True}),
    "privacy": ("Distance to the real training images", _privacy, None),
    "quality": ("Quality of the APIs", _quality, None),
    "relatives": ("Relatives that the paper names", _relatives, None),
}


def make_table(
    name: str, scale: Scale, *, dataset: str | None = None, seeds: int | None = None, rows: Sequence[str] = ()
) -> Table:
    """The table called `name`, or those of its `rows` that are asked for."""
    if name not in TABLES:
        raise ConfigError(f"unknown table or figure {name!r}; {nearest(name, TABLES)}")
    title, make_rows, axis = TABLES[name]
    mixed = name in ("tab:mh", "fig:apiacc_all")
    dataset = "mh" if mixed else dataset or scale.dataset
    if dataset == "mh" and not mixed:
        raise ConfigError(f"{name} is about one data set; mh belongs to tab:mh and fig:apiacc_all alone")
    made = make_rows(Maker(scale=scale, dataset=dataset, table=name, seeds=seeds))
    for row in rows:
        known = {one.cell.row for one in made}
        if row not in known:
            raise ConfigError(f"{name} has no row {row!r}; {nearest(row, known)}")
    if rows:
        made = [row for row in made if row.cell.row in rows]
    return Table(name=name, title=title, scale=scale.name, dataset=dataset, rows=made, axis=axis, seeds=seeds)
