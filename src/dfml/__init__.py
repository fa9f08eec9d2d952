"""Turn black-box image-classification APIs into a few-shot learner, without any data."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if sys.platform == "win32":
    raise ImportError("dfml runs on Linux and macOS: it locks run folders in their way; use WSL here")

__version__ = "0.1.0"

if TYPE_CHECKING:
    from dfml.adaptation.classifier import FewShotClassifier
    from dfml.apis.blackbox import ApiSpec, BlackBox
    from dfml.apis.loading import load_apis
    from dfml.apis.local.function import FunctionApi
    from dfml.apis.local.module import ModuleApi
    from dfml.apis.local.onnx import OnnxApi
    from dfml.initialisation import Initialisation
    from dfml.learning import learn

# Loaded when first used, so that `import dfml` and `dfml --help` do not wait for torch.
_HOMES = {
    "ApiSpec": "dfml.apis.blackbox",
    "BlackBox": "dfml.apis.blackbox",
    "FewShotClassifier": "dfml.adaptation.classifier",
    "FunctionApi": "dfml.apis.local.function",
    "Initialisation": "dfml.initialisation",
    "ModuleApi": "dfml.apis.local.module",
    "OnnxApi": "dfml.apis.local.onnx",
    "learn": "dfml.learning",
    "load_apis": "dfml.apis.loading",
}

__all__ = [
    "ApiSpec",
    "BlackBox",
    "FewShotClassifier",
    "FunctionApi",
    "Initialisation",
    "ModuleApi",
    "OnnxApi",
    "learn",
    "load_apis",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'dfml' has no attribute {name!r}")
