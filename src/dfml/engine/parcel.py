"""An API as bytes that another machine can make it from: nothing but dfml and a network need be there."""

import copyreg
import inspect
import io
import pickle
import sys
import sysconfig
from collections import ChainMap
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

from ray import cloudpickle

from dfml.apis.blackbox import BlackBox, innermost
from dfml.apis.local.exported import ExportedApi
from dfml.apis.local.function import FunctionApi
from dfml.apis.local.onnx import OnnxApi
from dfml.apis.local.tflite import TfliteApi
from dfml.apis.remote.secrets import Secret
from dfml.errors import ConfigError


@dataclass(frozen=True)
class PackedApi:
    """An API under way. It may hold secrets, so it does not show what is in it."""

    name: str
    content: bytes = field(repr=False)

    def open(self) -> BlackBox:
        """The API, ready to be asked here."""
        try:
            api: BlackBox = pickle.loads(self.content)
        except Exception as error:  # whatever the module of a user's function raises when it is imported
            raise ConfigError(
                f"{self.name}: it cannot be opened on a Ray node ({type(error).__name__}: {error}); install there what "
                "it needs, or use --engine local"
            ) from error
        return api


def pack(api: BlackBox) -> PackedApi:
    """`api` with its files and secrets inside, wrappers and all."""
    name, content = api.spec.name, io.BytesIO()
    inner = innermost(api)
    module = _own_module(inner.function) if isinstance(inner, FunctionApi) else None
    if module is not None:
        cloudpickle.register_pickle_by_value(module)
    try:
        _Pickler(content).dump(api)
    except Exception as error:  # pickling asks the objects themselves, which raise what they like
        raise ConfigError(
            f"{name}: it cannot be sent to another machine ({type(error).__name__}: {error}); use --engine local, or "
            "an API that holds no open files, locks or connections"
        ) from error
    finally:
        if module is not None:
            cloudpickle.unregister_pickle_by_value(module)
    return PackedApi(name, content.getvalue())


def _with_file(api: OnnxApi | ExportedApi | TfliteApi) -> tuple[Any, ...]:
    content = api.path.read_bytes() if api.content is None else api.content
    return copyreg.__newobj__, (type(api),), api.__getstate__() | {"content": content}  # type: ignore[attr-defined]


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Takes along what other pickles leave behind: files, and secrets, which go into no other."""

    dispatch_table: ClassVar = ChainMap(
        {
            **dict.fromkeys((OnnxApi, ExportedApi, TfliteApi), _with_file),
            Secret: lambda secret: (Secret, (secret.reveal(),)),
        },
        cloudpickle.Pickler.dispatch_table,
    )


def _own_module(function: Callable[..., Any]) -> ModuleType | None:
    """The user's module that `function` comes from; None where other machines have it installed."""
    module = inspect.getmodule(function if inspect.isroutine(function) else type(function))
    if module is None or module.__name__ == "__main__" or module.__name__.split(".")[0] == "dfml":
        return None  # cloudpickle sends functions of __main__ by value by itself
    file = getattr(module, "__file__", None)
    installed = [Path(sysconfig.get_path(kind)) for kind in ("stdlib", "purelib", "platlib")]
    if file is None or any(Path(file).is_relative_to(folder) for folder in installed):
        return None
    return sys.modules.get(module.__name__)
