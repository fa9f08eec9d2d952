"""From a manifest to APIs that answer."""

import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import torch
from safetensors.torch import load_file

from dfml.apis.blackbox import ApiSpec, BlackBox
from dfml.apis.degrade import WithoutBackground
from dfml.apis.entry import REMOTE
from dfml.apis.local.exported import ExportedApi
from dfml.apis.local.function import FunctionApi, find_function
from dfml.apis.local.module import ModuleApi
from dfml.apis.local.onnx import OnnxApi
from dfml.apis.local.tflite import TfliteApi
from dfml.apis.manifest import ApiEntry, read_manifest
from dfml.apis.pixels import InputConfig, arranged
from dfml.apis.remote.secrets import Redactor, Secret, expand, references
from dfml.apis.scores import OutputConfig
from dfml.errors import ConfigError
from dfml.nets import NetSpec

if TYPE_CHECKING:
    from dfml.apis.remote.host import Host


def load_apis(path: str | Path, *, only: Iterable[str] | None = None) -> list[BlackBox]:
    """Every API of a manifest or zoo folder, or those named in `only`, ready to be asked."""
    manifest = read_manifest(Path(path))
    hosts: dict[str, Host] = {}  # APIs of one server share its connections
    apis: list[BlackBox] = []
    for name, entry in manifest.chosen(only).items():
        where = manifest.where(name)
        api = (
            _remote(entry, entry.spec(name), hosts, where)
            if entry.protocol in REMOTE
            else _local(entry, entry.spec(name), manifest.path.parent, where)
        )
        apis.append(api if entry.output.background is None else WithoutBackground(api, entry.output.background))
    return apis


def _local(entry: ApiEntry, spec: ApiSpec, folder: Path, where: str) -> BlackBox:
    output = None if entry.output == OutputConfig() else entry.output
    arrange = None if entry.input == InputConfig() else partial(arranged, config=entry.input)
    if entry.protocol == "python":
        function = find_function(entry.function or "", folder, where)
        return FunctionApi(function, spec, arrange=arrange, output=output, limits=entry.limits)
    if entry.file is None:
        raise ConfigError(f"{where} has no file to load; add file = 'model.onnx'")
    file = folder / entry.file
    if entry.protocol == "torch":
        return ExportedApi(file, spec, arrange=arrange, output=output)
    if entry.protocol == "tflite":
        return TfliteApi(file, spec, input=entry.input, output=entry.output)
    return OnnxApi(file, spec, arrange=arrange, output=output)


def _remote(entry: ApiEntry, spec: ApiSpec, hosts: "dict[str, Host]", where: str) -> BlackBox:
    from dfml.apis.remote.api import RemoteApi, WireFormat
    from dfml.apis.remote.host import Host, origin_of
    from dfml.apis.remote.huggingface import HuggingFace
    from dfml.apis.remote.inference_v2 import InferenceV2
    from dfml.apis.remote.json_route import JsonRoute
    from dfml.apis.remote.tf_serving import TfServing

    formats: dict[str, Callable[..., WireFormat]] = {
        "inference_v2": InferenceV2,
        "tf_serving": TfServing,
        "huggingface": HuggingFace,
        "json": JsonRoute,
    }
    environment = os.environ
    url = expand(entry.url or "", environment, where=f"{where}: url").rstrip("/")
    secrets = references(entry.url or "", environment)
    try:
        origin = origin_of(url)
    except ConfigError as error:
        raise ConfigError(f"{where}: {Redactor(secrets)(str(error))}") from None
    model = None if entry.model is None else quote(entry.model, safe="/" if entry.protocol == "huggingface" else "")
    version = None if entry.version is None else quote(entry.version, safe="")
    format = formats[entry.protocol](url, model, version, entry.input, entry.output)
    return RemoteApi(
        spec,
        format,
        hosts.setdefault(origin, Host(origin)),
        output=entry.output,
        limits=entry.limits,
        headers=secret_headers(entry.headers, environment, where),
        secrets=secrets,
    )


def secret_headers(headers: Mapping[str, str], environment: Mapping[str, str], where: str) -> dict[str, Secret]:
    """Headers with their references resolved; every value is treated as a secret, whether it is one or not."""
    return {
        name: Secret(expand(text, environment, where=f"{where}: the header {name}")) for name, text in headers.items()
    }


def load_white_boxes(
    path: str | Path, *, only: Iterable[str] | None = None, device: torch.device | str = "cpu"
) -> list[ModuleApi]:
    """The APIs of a zoo with their weights, so that input gradients can be had: for the white-box bound only."""
    manifest = read_manifest(Path(path))
    boxes = []
    for name, entry in manifest.chosen(only).items():
        if entry.weights is None or entry.arch is None:
            raise ConfigError(f"{manifest.where(name)} has no weights; the white-box bound needs a zoo of dfml")
        tensors = load_file(manifest.path.parent / entry.weights)
        mean, std = tensors.pop("mean"), tensors.pop("std")
        channels, size, _ = entry.image
        shape = NetSpec(arch=entry.arch, way=len(entry.classes), size=size, channels=channels, width=entry.width or 0)
        net = shape.outline()
        net.load_state_dict(tensors)
        boxes.append(ModuleApi(net.to(device), entry.spec(name), mean=mean, std=std))
    return boxes
