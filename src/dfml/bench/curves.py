"""Figures of bench results: accuracy against an axis, one panel a shot, one line a series."""

from typing import TYPE_CHECKING, Any

from dfml.bench.results import ResultTable
from dfml.evaluation.records import Score

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Name = tuple[str, str]
"""a series and a head"""
Points = dict[Name, list[tuple[float, Score]]]
STYLES = {"finetune": ("--", "o"), "prototype": ("-", "s"), "answers": ("-.", "^")}
"""of lines and markers, by head"""


def curves(table: ResultTable) -> "Figure | None":
    """One panel a shot, or a single one where shots are the axis; series without a place on it become levels.

    A series has one colour under all heads, a head one style of line. What a table shows beside accuracy has an axis
    of its own on the right.
    """
    from matplotlib.figure import Figure

    axis = table.axis or {"name": "", "log": False}
    over_shots = axis["name"] == "shots"
    panels = [0] if over_shots else table.shots
    if not panels or not table.shots:
        return None
    figure = Figure(figsize=(4.2 * len(panels) + 2.8, 4.2), layout="constrained")
    shown: dict[Name, Any] = {}
    for place, shot in enumerate(panels, start=1):
        axes = figure.add_subplot(1, len(panels), place)
        points, levels = _points(table, shot, over_shots)
        names = dict.fromkeys(series for series, _ in (*points, *levels))
        colours = {series: f"C{number}" for number, series in enumerate(names)}
        for (series, head), values in points.items():
            x, y = [x for x, _ in values], [value.mean for _, value in values]
            line, marker = STYLES.get(head, (":", "D"))
            bars = [value.ci95 for _, value in values]
            look: dict[str, Any] = {
                "color": colours[series],
                "linestyle": line,
                "marker": marker,
                "markersize": 4,
                "capsize": 2,
            }
            shown[series, head] = axes.errorbar(x, y, yerr=bars, **look)
        for (series, head), level in levels.items():
            line, _ = STYLES.get(head, (":", ""))
            shown[series, head] = axes.axhline(level.mean, color=colours[series], linestyle=line, linewidth=1)
        if axis["log"]:
            axes.set_xscale("log")
        if table.aside is not None:
            shown[table.aside, ""] = _draw_aside(axes.twinx(), table)
        title = table.title if over_shots else f"{shot}-shot"
        axes.set(title=title, xlabel=axis["name"], ylabel="accuracy on unseen classes (%)")
    labels = [f"{series} ({head})" if head else series for series, head in shown]
    figure.legend(list(shown.values()), labels, loc="outside right center", fontsize=7, frameon=False)
    return figure


def _draw_aside(axes: Any, table: ResultTable) -> Any:
    """What stands beside accuracy, in grey on an axis of its own."""
    name = table.aside or ""
    points = {line.x: y for line in table.lines if line.x and (y := line.aside(name)) is not None}
    x = sorted(points)
    axes.set(ylabel=name, ylim=(0, 1.05 * max(points.values(), default=1.0)))
    (line,) = axes.plot(x, [points[place] for place in x], color="0.6", linestyle=":", marker=".")
    return line


def _points(table: ResultTable, shot: int, over_shots: bool) -> tuple[Points, dict[Name, Score]]:
    """Points by series and head, and levels of what has no place on the axis."""
    points: Points = {}
    levels: dict[Name, Score] = {}
    for line in table.lines:
        for head in line.heads:
            name = line.series or line.label, head
            for one in line.shots if over_shots else [shot]:
                value = line.value(head, one)
                x = one if over_shots else line.x or None  # what asks nothing has no place on an axis of queries
                if value is not None and x is None:
                    levels[name] = value
                elif value is not None and x is not None:
                    points.setdefault(name, []).append((x, value))
    return {name: sorted(values, key=lambda point: point[0]) for name, values in points.items()}, levels
