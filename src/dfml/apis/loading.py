"""From a manifest to APIs that answer."""

from collections.abc import Iterable
from pathlib import Path

from safetensors.torch import load_file

from dfml.apis.blackbox import BlackBox
from dfml.apis.manifest import ApiEntry, entry_spec, find_manifest, read_manifest
from dfml.apis.module import ModuleApi
from dfml.apis.onnx import OnnxApi
from dfml.config import nearest
from dfml.errors import ConfigError
from dfml.nets import NetSpec


def load_apis(path: str | Path, *, only: Iterable[str] | None = None) -> list[BlackBox]:
    """Every API of a manifest or zoo folder, or those named in `only`, ready to be asked."""
    manifest = find_manifest(Path(path))
    apis: list[BlackBox] = []
    for name, entry in _chosen(manifest, only).items():
        if entry.file is None:
            raise ConfigError(f"{manifest}: [apis.{name}] has no file to load; add file = 'model.onnx'")
        apis.append(OnnxApi(manifest.parent / entry.file, entry_spec(name, entry)))
    return apis


def load_white_boxes(path: str | Path, *, only: Iterable[str] | None = None) -> list[ModuleApi]:
    """The APIs of a zoo with their weights, so that input gradients can be had: for the white-box bound only."""
    manifest = find_manifest(Path(path))
    boxes = []
    for name, entry in _chosen(manifest, only).items():
        if entry.weights is None or entry.arch is None:
            raise ConfigError(f"{manifest}: [apis.{name}] has no weights; the white-box bound needs a zoo of dfml")
        tensors = load_file(manifest.parent / entry.weights)
        mean, std = tensors.pop("mean"), tensors.pop("std")
        channels, size, _ = entry.image
        spec = NetSpec(arch=entry.arch, way=len(entry.classes), size=size, channels=channels, width=entry.width or 0)
        net = spec.outline()
        net.load_state_dict(tensors)
        boxes.append(ModuleApi(net, entry_spec(name, entry), mean=mean, std=std))
    return boxes


def _chosen(manifest: Path, only: Iterable[str] | None) -> dict[str, ApiEntry]:
    entries, _ = read_manifest(manifest)
    names = list(entries if only is None else only)
    for name in names:
        if name not in entries:
            raise ConfigError(f"{manifest}: no API named {name!r}; {nearest(name, entries)}")
    return {name: entries[name] for name in names}
