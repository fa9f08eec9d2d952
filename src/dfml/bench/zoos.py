"""Zoos for cells: found where there are some, built where there are none."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from dfml.apis.blackbox import BlackBox
from dfml.apis.loading import load_apis, load_white_boxes
from dfml.apis.manifest import ApiEntry, read_manifest
from dfml.bench.cells import ApiSelection
from dfml.config import to_mapping
from dfml.errors import ConfigError, DfmlError
from dfml.zoo.building import ZooConfig
from dfml.zoo.coverage import cover_rate, mean_accuracy


class Zoos:
    """Folders of zoos; `home` is where missing ones are built."""

    def __init__(self, home: Path, others: Sequence[Path] = ()) -> None:
        self.home, self.others = home, others

    def find(self, draw: ApiSelection) -> Path | None:
        """A finished zoo that holds the drawn APIs: built alike, and at least as large."""
        wanted = to_mapping(draw.zoo) | {"apis": None}
        default = to_mapping(ZooConfig())  # of what a zoo was built before there was a choice
        for folder in self._candidates():
            try:
                manifest = read_manifest(folder / "zoo.toml")
            except DfmlError:
                continue
            alike = default | manifest.zoo.get("config", {}) | {"apis": None} == wanted
            if alike and len(manifest.entries) >= draw.first + draw.count:
                return folder
        return None

    def missing(self, draws: Iterable[ApiSelection]) -> list[ZooConfig]:
        """The zoos to build, each as large as the largest draw from it."""
        sizes: dict[ZooConfig, int] = {}
        for draw in draws:
            if self.find(draw) is None:
                kind = replace(draw.zoo, apis=1)
                sizes[kind] = max(sizes.get(kind, 0), draw.first + draw.count)
        return [replace(kind, apis=size) for kind, size in sizes.items()]

    def folder(self, config: ZooConfig) -> Path:
        """Where a missing zoo is to be built."""
        return self.home / zoo_name(config)

    def entries(self, draws: Sequence[ApiSelection]) -> dict[str, ApiEntry]:
        """The drawn APIs by name, as their manifests describe them."""
        found: dict[str, ApiEntry] = {}
        for draw in draws:
            entries = read_manifest(self._found(draw) / "zoo.toml").entries
            found |= dict(list(entries.items())[draw.first : draw.first + draw.count])
        return found

    def apis(self, draws: Sequence[ApiSelection]) -> list[BlackBox]:
        """The drawn APIs, ready to be asked."""
        return [api for draw in draws for api in load_apis(self._found(draw), only=list(self.entries([draw])))]

    def white_boxes(self, draws: Sequence[ApiSelection], *, device: torch.device) -> list[BlackBox]:
        """The drawn APIs with their weights, on `device`."""
        found = [(self._found(draw), list(self.entries([draw]))) for draw in draws]
        return [api for folder, names in found for api in load_white_boxes(folder, only=names, device=device)]

    def describe(self, draws: Sequence[ApiSelection]) -> dict[str, Any]:
        """How many APIs, how good, and the part of the train classes they know."""
        entries = self.entries(draws)
        about: dict[str, Any] = {"train_classes": {}}
        for draw in draws:
            zoo = read_manifest(self._found(draw) / "zoo.toml").zoo
            about["train_classes"] |= zoo.get("train_classes", {})
        accuracy, cover = mean_accuracy(entries), cover_rate(entries, about) if draws else None
        return {
            "count": len(entries),
            "mean_accuracy": None if accuracy is None else round(accuracy, 4),
            "cover_rate": None if cover is None else round(cover, 4),
        }

    def _found(self, draw: ApiSelection) -> Path:
        folder = self.find(draw)
        if folder is None:
            raise ConfigError(f"there is no zoo {zoo_name(draw.zoo)} of {draw.first + draw.count} APIs; build it first")
        return folder

    def _candidates(self) -> Iterator[Path]:
        for place in (*self.others, self.home):
            yield from (manifest.parent for manifest in (place / "zoo.toml",) if manifest.exists())
            yield from sorted(manifest.parent for manifest in place.glob("*/zoo.toml"))


def zoo_name(config: ZooConfig) -> str:
    """A folder name that tells what differs from the default zoo."""
    default = to_mapping(ZooConfig())
    skip = ("dataset", "scenario", "apis")
    changed = [f"{k}{v}" for k, v in to_mapping(config).items() if k not in skip and v != default.get(k)]
    place = "" if config.scenario == "mh" else f"-{config.dataset}"
    return "-".join([f"{config.scenario}{place}-{config.apis}", *changed])
