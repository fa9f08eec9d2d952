"""Which charts a page shows of a run, of several runs, of a table of the bench."""

from collections.abc import Sequence

from dfml.bench.results import Line, ResultTable
from dfml.evaluation.records import Evaluation, Score
from dfml.report.chart import Chart, Series, draw, smooth, thin
from dfml.report.story import RunStory

QUERIES = "queries an API"


def learning_curves(run: RunStory) -> list[Chart]:
    """How learning went, as far as the method tells."""
    charts = []
    distilled = run.curve("Distilled", "objective")
    if len(distilled) > 1:
        series = [Series("divergence", distilled)]
        charts.append(draw("Distance to the APIs' answers", series, x="update", y="KL divergence"))
    for value, title, y in (("accuracy", "Accuracy on replayed tasks", "percent"), ("loss", "Loss in replay", "loss")):
        points = [(x, 100 * v if y == "percent" else v) for x, v in run.curve("Replayed", value)]
        if len(points) > 1:
            mean = smooth(points, window=max(1, len(points) // 10))
            line = Series("running mean", thin(mean), faint=thin(points))
            charts.append(draw(title, [line], x="iteration", y=y))
    visits = [Series(part, thin(run.curve("Visited", f"{part}_loss")), marks=True) for part in ("inner", "outer")]
    if all(len(series.points) > 1 for series in visits):
        charts.append(draw("Distillation, visit by visit", visits, x="iteration", y="KL divergence"))
    spent, total = [], 0.0
    for iteration, queries in run.curve("Visited", "queries"):
        total += queries
        spent.append((iteration, total))
    if len(spent) > 1:
        charts.append(draw("Queries spent", [Series("queries", thin(spent), marks=True)], x="iteration", y="queries"))
    return charts


def accuracy_against_queries(runs: Sequence[RunStory]) -> list[Chart]:
    """One chart for each kind of task that several runs were tested on."""
    offline = {run.folder: [e for e in run.evaluations if e.queries_per_prediction is None] for run in runs}
    kinds = sorted({(e.dataset, e.part, e.way, e.shot) for found in offline.values() for e in found})
    charts = []
    for dataset, part, way, shot in kinds:
        series = [
            _point(f"{run.name}, {e.head}", run.queries_per_api, e.score.mean, e.score.ci95)
            for run in runs
            for e in offline[run.folder]
            if (e.dataset, e.part, e.way, e.shot) == (dataset, part, way, shot)
        ]
        if len(series) > 1 and any(one.points for one in series):
            title = f"{way}-way {shot}-shot, {dataset} {part}"
            charts.append(draw(title, series, x=QUERIES, y="accuracy, percent", log_x=True))
    return charts


def accuracy_against_asking(runs: Sequence[RunStory]) -> list[Chart]:
    """One chart a run and kind of task: what a live classifier gains by asking more."""
    charts = []
    for run in runs:
        live = [e for e in run.evaluations if e.queries_per_prediction is not None]
        prices = [e.usd_per_query for e in live if e.usd_per_query is not None]
        for dataset, part, way in sorted({(e.dataset, e.part, e.way) for e in live}):
            lines: dict[int, list[Evaluation]] = {}
            for e in live:
                if (e.dataset, e.part, e.way) == (dataset, part, way):
                    lines.setdefault(e.shot, []).append(e)
            series = []
            for shot, found in sorted(lines.items()):
                found.sort(key=lambda e: e.queries_per_prediction or 0.0)
                points = [(e.queries_per_prediction or 0.0, e.score.mean) for e in found]
                series.append(Series(f"{shot}-shot", points, [e.score.ci95 for e in found], marks=True))
            axis = "queries a prediction"
            if prices:
                axis += f" (1 is {max(prices):.2f} USD for 1,000 predictions)"
            charts.append(draw(f"{run.name}: {way}-way, {dataset} {part}", series, x=axis, y="accuracy, percent"))
    return charts


def bench_figures(table: ResultTable) -> list[Chart]:
    """A chart for each head and number of shots, where the table is a figure."""
    if table.axis is None:
        return []
    name, log = str(table.axis.get("name", "")), bool(table.axis.get("log"))
    charts = []
    for head in table.heads:
        for shot in table.shots:
            series = _lines(table.lines, head, shot, log=log)
            if any(one.points for one in series):
                title = f"{shot}-shot, {head}"
                charts.append(draw(title, series, x=name, y="accuracy, percent", log_x=log))
    return charts


def _lines(lines: Sequence[Line], head: str, shot: int, *, log: bool) -> list[Series]:
    """Rows of one series are the points of one line; what has no place on a log axis becomes a level."""
    series: dict[str, list[tuple[float, Score]]] = {}
    for line in lines:
        value = line.value(head, shot)
        if value is not None and line.x is not None:
            series.setdefault(line.series or line.label, []).append((line.x, value))
    drawn = []
    for label, members in series.items():
        placed = sorted((x, value) for x, value in members if x > 0 or not log)
        points, widths = [(x, value.mean) for x, value in placed], [value.ci95 for _, value in placed]
        drawn.append(Series(label, points, widths, level=None if placed else members[0][1].mean, marks=True))
    return drawn


def _point(label: str, queries: float, mean: float, ci95: float) -> Series:
    """A run on a log axis; one that asked nothing is a level."""
    if queries <= 0:
        return Series(label, level=mean)
    return Series(label, [(queries, mean)], [ci95], marks=True)
