"""dfml: learn to learn from black-box image-classification APIs, without data."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if sys.platform == "win32":
    raise ImportError("dfml runs on Linux and macOS: it locks run folders in their way; use WSL here")

__version__ = "0.1.0"

if TYPE_CHECKING:
    from dfml import errors, events
    from dfml.adaptation.classifier import FewShotClassifier
    from dfml.apis.blackbox import ApiSpec, BlackBox, Terms
    from dfml.apis.degrade import LabelOnly, Quantised, Rounded, TopK, WithoutBackground
    from dfml.apis.gate import Gated
    from dfml.apis.ledger import Budget, Ledger, Metered, spending
    from dfml.apis.loading import load_apis
    from dfml.apis.local.function import FunctionApi
    from dfml.apis.local.module import ModuleApi
    from dfml.apis.local.onnx import OnnxApi
    from dfml.errors import (
        ApiError,
        ArtifactError,
        BadAnswer,
        BudgetExceeded,
        ConfigError,
        DataError,
        DfmlError,
        RateLimited,
        Refused,
        Unreachable,
    )
    from dfml.initialisation import Initialisation
    from dfml.learning import learn
    from dfml.probing import probe

# Loaded when first used, so that `import dfml` and `dfml --help` do not wait for torch.
_HOMES = {
    "dfml.adaptation.classifier": ("FewShotClassifier",),
    "dfml.apis.blackbox": ("ApiSpec", "BlackBox", "Terms"),
    "dfml.apis.degrade": ("LabelOnly", "Quantised", "Rounded", "TopK", "WithoutBackground"),
    "dfml.apis.gate": ("Gated",),
    "dfml.apis.ledger": ("Budget", "Ledger", "Metered", "spending"),
    "dfml.apis.loading": ("load_apis",),
    "dfml.apis.local.function": ("FunctionApi",),
    "dfml.apis.local.module": ("ModuleApi",),
    "dfml.apis.local.onnx": ("OnnxApi",),
    "dfml.errors": (
        "ApiError",
        "ArtifactError",
        "BadAnswer",
        "BudgetExceeded",
        "ConfigError",
        "DataError",
        "DfmlError",
        "RateLimited",
        "Refused",
        "Unreachable",
    ),
    "dfml.initialisation": ("Initialisation",),
    "dfml.learning": ("learn",),
    "dfml.probing": ("probe",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "ApiError",
    "ApiSpec",
    "ArtifactError",
    "BadAnswer",
    "BlackBox",
    "Budget",
    "BudgetExceeded",
    "ConfigError",
    "DataError",
    "DfmlError",
    "FewShotClassifier",
    "FunctionApi",
    "Gated",
    "Initialisation",
    "LabelOnly",
    "Ledger",
    "Metered",
    "ModuleApi",
    "OnnxApi",
    "Quantised",
    "RateLimited",
    "Refused",
    "Rounded",
    "Terms",
    "TopK",
    "Unreachable",
    "WithoutBackground",
    "errors",
    "events",
    "learn",
    "load_apis",
    "probe",
    "spending",
]


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(import_module(_HOME_OF[name]), name)
    if name in ("errors", "events"):
        return import_module(f"dfml.{name}")
    raise AttributeError(f"module 'dfml' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
