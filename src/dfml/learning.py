"""`learn`: from a list of APIs to an initialisation, in a run folder that can be stopped and resumed."""

import json
import time
import tomllib
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import tomli_w

import dfml
from dfml.apis.blackbox import BlackBox
from dfml.apis.ledger import Budget, Ledger, Metered, ledger_path
from dfml.apis.loading import load_apis, load_white_boxes
from dfml.config import nearest, override, to_mapping
from dfml.errors import ConfigError
from dfml.events import ApiJoined, Event, LearningFinished
from dfml.initialisation import Initialisation
from dfml.methods import Workplace, find_method
from dfml.runs import RunFolder
from dfml.runtime import keep_freed_memory, peak_memory_mb

DEFAULT_METHOD = "chorus"


def learn(
    apis: str | Path | Sequence[BlackBox],
    out: str | Path,
    *,
    method: str = DEFAULT_METHOD,
    preset: str | None = None,
    settings: Iterable[str] = (),
    budget: int | None = None,
    budget_per_api: int | None = None,
    seed: int = 0,
    resume: bool = False,
    on_event: Callable[[Event], Any] = lambda event: None,
) -> Initialisation:
    """Learn an initialisation from `apis`: a manifest, a zoo folder, or anything callable behind the seam.

    `settings` are overrides such as "recovery.directions=10". No more than `budget` queries are sent in all, and no
    more than `budget_per_api` to any API. The initialisation is also saved as `out`/init.safetensors.
    """
    keep_freed_memory()
    chosen = find_method(method)
    boxes = _open(apis, with_weights=getattr(chosen, "NEEDS_WEIGHTS", False))
    config = chosen.plan(
        override(_preset(chosen.PRESETS, preset), settings), boxes, budget=budget, budget_per_api=budget_per_api
    )
    table = {
        "method": method,
        "seed": seed,
        "apis": [api.spec.name for api in boxes],
        **({"budget": budget} if budget is not None else {}),
        **({"budget_per_api": budget_per_api} if budget_per_api is not None else {}),
        "settings": to_mapping(config),
    }
    with ExitStack() as open_files:
        run = open_files.enter_context(RunFolder(out, table, resume=resume))
        if run.finished:
            return Initialisation.load(run.initialisation)

        def emit(event: Event) -> None:
            run.write(event)
            on_event(event)

        shared = None if budget is None else Budget(budget)
        metered = []
        for api in boxes:
            ledger = Ledger(ledger_path(run.path, api.spec.name), budget=budget_per_api, shared=shared)
            metered.append(Metered(api, open_files.enter_context(ledger)))
            known = api.spec
            emit(ApiJoined(api=known.name, classes=known.classes, image=known.image, accuracy=known.accuracy))
        started = time.monotonic()
        place = Workplace(metered, run, seed, emit, budget, budget_per_api)
        learned = chosen.run(config, place)
        provenance = {**table, "queries": place.queries, "dfml": dfml.__version__}
        initialisation = replace(learned, provenance=json.loads(json.dumps(provenance)))
        initialisation.save(run.initialisation)
        seconds = round(time.monotonic() - started, 1)
        emit(LearningFinished(queries=place.queries, seconds=seconds, peak_memory_mb=peak_memory_mb()))
        return initialisation


def settings_from(path: Path) -> list[str]:
    """The overrides that a TOML file stands for: its tables are the groups of the settings."""
    try:
        tables = tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise ConfigError(f"{path} does not exist; name a TOML file of settings") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None
    return [
        f"{group}.{key}={tomli_w.dumps({'value': value}).partition('=')[2].strip()}"
        for group, table in tables.items()
        if isinstance(table, dict)
        for key, value in table.items()
    ]


def _open(apis: str | Path | Sequence[BlackBox], *, with_weights: bool) -> list[BlackBox]:
    boxes: list[BlackBox]
    if not isinstance(apis, str | Path):
        boxes = list(apis)
    elif with_weights:
        boxes = list(load_white_boxes(apis))
    else:
        boxes = load_apis(apis)
    if not boxes:
        raise ConfigError("there is no API to learn from; pass at least one")
    names = [api.spec.name for api in boxes]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"API names must differ, but {', '.join(twice)} stands twice; rename one")
    return boxes


def _preset(presets: dict[str, Any], name: str | None) -> Any:
    if (name or "default") not in presets:
        raise ConfigError(f"unknown preset {name!r}; {nearest(str(name), presets)}")
    return presets[name or "default"]
