"""Figures of bench results: accuracy against an axis, one panel a shot, one line a series."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Measured(Protocol):
    """A mean and half the width of its interval."""

    @property
    def mean(self) -> float: ...
    @property
    def ci95(self) -> float: ...


class Line(Protocol):
    """A row of a table: one point, or with an axis of shots one point a shot."""

    @property
    def series(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def x(self) -> float | None: ...
    @property
    def queries(self) -> float | None: ...
    @property
    def heads(self) -> list[str]: ...
    @property
    def shots(self) -> list[int]: ...
    @property
    def finished(self) -> Sequence[dict[str, Any]]: ...
    def value(self, head: str, shot: int) -> Measured | None: ...


class Table(Protocol):
    """A table with an axis."""

    @property
    def title(self) -> str: ...
    @property
    def axis(self) -> Mapping[str, Any] | None: ...
    @property
    def lines(self) -> Sequence[Line]: ...
    @property
    def shots(self) -> list[int]: ...


Points = dict[str, list[tuple[float, Measured]]]


def curves(table: Table) -> "Figure | None":
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


def _points(table: Table, shot: int, over_shots: bool) -> tuple[Points, dict[str, Measured]]:
    """Points by series and head, and levels of what has no place on the axis."""
    points: Points = {}
    levels: dict[str, Measured] = {}
    for line in table.lines:
        for head in line.heads:
            name = f"{line.series or line.label} ({head})"
            for one in line.shots if over_shots else [shot]:
                value = line.value(head, one)
                x = one if over_shots else line.x
                if table.axis and table.axis["name"].startswith("queries"):
                    x = line.queries or None
                if value is not None and x is None:
                    levels[name] = value
                elif value is not None and x is not None:
                    points.setdefault(name, []).append((x, value))
    return {name: sorted(values, key=lambda point: point[0]) for name, values in points.items()}, levels


def histogram(table: Table) -> "Figure | None":
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
