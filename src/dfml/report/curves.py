"""Figures of bench results: accuracy against an axis, one panel a shot, one line a series."""

from typing import TYPE_CHECKING

from dfml.report.accuracy import Score
from dfml.report.results import ResultTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Points = dict[str, list[tuple[float, Score]]]


def curves(table: ResultTable) -> "Figure | None":
    """One panel a shot, or a single one where shots are the axis; series without a place on it become levels."""
    from matplotlib.figure import Figure

    axis = table.axis or {"name": "", "log": False}
    over_shots = axis["name"] == "shots"
    panels = [0] if over_shots else table.shots
    if not panels or not table.shots:
        return None
    figure = Figure(figsize=(4.6 * len(panels), 3.8), layout="constrained")
    for place, shot in enumerate(panels, start=1):
        axes = figure.add_subplot(1, len(panels), place)
        points, levels = _points(table, shot, over_shots)
        for number, (name, values) in enumerate(points.items()):
            x, y = [x for x, _ in values], [value.mean for _, value in values]
            bars = [value.ci95 for _, value in values]
            axes.errorbar(x, y, yerr=bars, marker="os^vD*"[number % 6], markersize=4, capsize=2, label=name)
        for number, (name, level) in enumerate(levels.items()):
            style = (":", "--", "-.")[number % 3]
            axes.axhline(level.mean, linestyle=style, color="grey", linewidth=1, label=name)
        if axis["log"]:
            axes.set_xscale("log")
        title = table.title if over_shots else f"{shot}-shot"
        axes.set(title=title, xlabel=axis["name"], ylabel="accuracy on unseen classes (%)")
        axes.legend(fontsize=7)
    return figure


def _points(table: ResultTable, shot: int, over_shots: bool) -> tuple[Points, dict[str, Score]]:
    """Points by series and head, and levels of what has no place on the axis."""
    points: Points = {}
    levels: dict[str, Score] = {}
    for line in table.lines:
        for head in line.heads:
            name = f"{line.series or line.label} ({head})"
            for one in line.shots if over_shots else [shot]:
                value = line.value(head, one)
                x = one if over_shots else line.x or None  # what asks nothing has no place on an axis of queries
                if value is not None and x is None:
                    levels[name] = value
                elif value is not None and x is not None:
                    points.setdefault(name, []).append((x, value))
    return {name: sorted(values, key=lambda point: point[0]) for name, values in points.items()}, levels


def histogram(table: ResultTable) -> "Figure | None":
    """How many APIs report which accuracy."""
    from matplotlib.figure import Figure

    lines = [line for line in table.lines if line.finished]
    if not lines:
        return None
    figure = Figure(figsize=(4.6 * len(lines), 3.4), layout="constrained")
    for place, line in enumerate(lines, start=1):
        axes = figure.add_subplot(1, len(lines), place)
        values = [100 * value for cell in line.finished for value in cell["measures"]["accuracies"]]
        axes.hist(values, bins=[5.0 * edge for edge in range(21)])
        axes.set(title=line.label, xlabel="reported accuracy (%)", ylabel="APIs")
    return figure
