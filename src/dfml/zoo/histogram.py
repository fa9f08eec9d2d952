"""fig:apiacc: how many APIs report which accuracy; matplotlib is imported only when it is drawn."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dfml.apis.manifest import ApiEntry
from dfml.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = 3


def reported_accuracies(entries: Mapping[str, ApiEntry]) -> dict[str, list[float]]:
    """The accuracies that APIs report, as fractions, by architecture and data set."""
    groups: dict[str, list[float]] = {}
    for entry in entries.values():
        if entry.accuracy is not None:
            kind = f"{entry.arch or 'unknown network'} on {entry.dataset or 'unknown data'}"
            groups.setdefault(kind, []).append(entry.accuracy)
    return groups


def accuracy_histogram(groups: Mapping[str, Sequence[float]]) -> "Figure":
    """One panel for each group of accuracies, given as fractions."""
    from matplotlib.figure import Figure

    if not any(groups.values()):
        raise ConfigError("no API reports an accuracy, so there is nothing to plot")
    rows, columns = -(-len(groups) // COLUMNS), min(len(groups), COLUMNS)
    figure = Figure(figsize=(3.2 * columns, 2.6 * rows), layout="constrained")
    for position, (title, fractions) in enumerate(groups.items(), start=1):
        values = [100 * value for value in fractions]
        axes = figure.add_subplot(rows, columns, position)
        axes.hist(values, bins=[5.0 * edge for edge in range(21)])
        axes.set(title=title, xlabel="reported accuracy (%)", ylabel="APIs")
        axes.set_xlim(max(0.0, min(values) // 10 * 10 - 10), 100)
    return figure
