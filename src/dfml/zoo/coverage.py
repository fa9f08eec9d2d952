"""How good the APIs of a zoo are, and how much of the data set they know."""

from collections.abc import Mapping
from typing import Any

from dfml.apis.manifest import ApiEntry


def mean_accuracy(entries: Mapping[str, ApiEntry]) -> float | None:
    """The mean of the reported accuracies, if there are any."""
    reported = [entry.accuracy for entry in entries.values() if entry.accuracy is not None]
    return sum(reported) / len(reported) if reported else None


def cover_rate(entries: Mapping[str, ApiEntry], zoo: Mapping[str, Any]) -> float | None:
    """The fraction of a zoo's train classes that at least one API knows; unknown for strangers' APIs."""
    if "train_classes" not in zoo:
        return None
    covered = {(entry.dataset, name) for entry in entries.values() for name in entry.classes}
    return len(covered) / sum(map(int, zoo["train_classes"].values()))
