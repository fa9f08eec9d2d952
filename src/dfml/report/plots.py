"""Figures as files; matplotlib is imported only when one is drawn."""

from collections.abc import Mapping
from pathlib import Path

from dfml.apis.manifest import ApiEntry
from dfml.errors import ConfigError


def accuracy_histogram(entries: Mapping[str, ApiEntry], path: Path) -> None:
    """fig:apiacc: how many APIs report which accuracy, one panel for each data set and architecture."""
    from matplotlib.figure import Figure

    groups: dict[str, list[float]] = {}
    for entry in entries.values():
        if entry.accuracy is not None:
            groups.setdefault(f"{entry.arch or 'unknown network'} on {entry.dataset or 'unknown data'}", []).append(
                100 * entry.accuracy
            )
    if not groups:
        raise ConfigError("no API of this manifest reports an accuracy, so there is nothing to plot")
    figure = Figure(figsize=(3.2 * min(len(groups), 3), 2.6 * -(-len(groups) // 3)), layout="constrained")
    for position, (title, values) in enumerate(groups.items(), start=1):
        axes = figure.add_subplot(-(-len(groups) // 3), min(len(groups), 3), position)
        axes.hist(values, bins=[5.0 * edge for edge in range(21)])
        axes.set(title=title, xlabel="reported accuracy (%)", ylabel="APIs")
        axes.set_xlim(max(0.0, min(values) // 10 * 10 - 10), 100)
    try:
        figure.savefig(path)
    except (ValueError, OSError) as error:
        raise ConfigError(f"cannot write the plot to {path}: {error}") from None
