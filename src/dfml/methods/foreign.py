"""Methods of other people: a Python file, or what an installed package offers as entry point `dfml.methods`."""

import sys
from collections.abc import Sequence
from importlib.metadata import entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from dfml.apis.blackbox import ApiSpec
from dfml.errors import ConfigError
from dfml.methods.footprint import CALL, LOADED, Footprint, ledger_bytes

GROUP = "dfml.methods"
NEEDED = ("PRESETS", "plan", "cost", "run")
USUAL = ("NEEDS_WEIGHTS", "ASKS_TOGETHER", "expected", "effort", "footprint")
"""what may be left out"""


def find_foreign(name: str) -> Any:
    """The method that `name` leads to, with what it left out filled in; None where it leads nowhere."""
    found: Any
    try:
        if name.endswith(".py"):
            found = _run_file(Path(name))
        elif offered := entry_points(group=GROUP, name=name):
            found = next(iter(offered)).load()
        else:
            return None
    except ConfigError:
        raise
    except Exception as error:  # other people's code may raise anything while it is imported
        raise ConfigError(f"the method {name} cannot be imported ({type(error).__name__}: {error})") from error
    missing = [part for part in NEEDED if not hasattr(found, part)]
    if missing or "default" not in found.PRESETS:
        lacks = " and no ".join(missing) or 'preset "default"'
        raise ConfigError(f"{name} is no method: it has no {lacks}; docs/methods.md says what one is")
    return _completed(found)


def _run_file(path: Path) -> Any:
    if not path.exists():
        raise ConfigError(f"there is no file {path} with a method; name one, or a method by its name")
    spec = spec_from_file_location(f"dfml_method_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look up the types of their fields
    spec.loader.exec_module(module)
    return module


def _completed(method: Any) -> Any:
    """The method, with the usual for whatever it left out: it asks what it may, one API after the other."""

    def footprint(config: Any, specs: Sequence[ApiSpec]) -> Footprint:
        return Footprint(LOADED + CALL, ledger_bytes(method.cost(config, specs), specs))

    usual = {
        "NEEDS_WEIGHTS": False,
        "ASKS_TOGETHER": False,
        "expected": method.cost,
        "effort": lambda config, specs: 0.0,
        "footprint": footprint,
    }
    own = {name: getattr(method, name) for name in (*NEEDED, *USUAL) if hasattr(method, name)}
    return SimpleNamespace(**usual | own)
