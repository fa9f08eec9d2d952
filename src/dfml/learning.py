"""`learn`: from a list of APIs to an initialisation, in a run folder that can be stopped and resumed."""

import json
import time
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import tomli_w
import torch

import dfml
from dfml.apis.blackbox import ApiSpec, BlackBox, reach, release
from dfml.apis.ledger import Budget, Ledger, Metered, Purse, ledger_path, spending
from dfml.apis.loading import load_apis, load_white_boxes
from dfml.cards import Teacher, run_card, write_card
from dfml.config import from_mapping, override, to_mapping
from dfml.engine.choice import open_engine
from dfml.errors import ApiError, ConfigError, Unreachable, nearest
from dfml.events import ApiJoined, Event, FellShort, LearningFinished, Remark, Step, Visited
from dfml.hardware import Precision, find_hardware
from dfml.initialisation import Initialisation
from dfml.methods import Method, Workplace, find_method
from dfml.methods.estimate import estimate
from dfml.notebook import progress_here
from dfml.pictures import digest, own_pictures
from dfml.runs import BUDGETS, RunFolder, has_learned, read_config, start_again
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
    device: str = "cpu",
    precision: Precision = "full",
    engine: str = "local",
    address: str | None = None,
    images: Any = None,
    forgive_doubt: bool = False,
    exact_answers: bool = False,
    on_event: Callable[[Event], Any] | None = None,
) -> Initialisation:
    """Learn an initialisation from `apis`: a manifest, a zoo folder, or anything callable behind the seam.

    `settings` are overrides such as "recovery.directions=10". No more than `budget` queries are sent in all, and no
    more than `budget_per_api` to any API; what was on the wire when an earlier process died counts, too, unless
    `forgive_doubt`. The initialisation is also saved as `out`/init.safetensors. Where APIs failed and it was learned
    from less than was planned, its provenance says so under "short", and with `resume` the rest is asked for.

    Answers of more than 100 classes are kept and used in float16, unless `exact_answers`.

    `device` and `precision` are explained in `dfml.hardware`. A run that was begun on one device may be resumed on
    another; what comes out is then not the same to the last bit. What is returned is on the CPU. With `engine` "ray",
    APIs are asked on a cluster: the one at `address`, or one that is started here. That changes no result.

    `images` are unlabelled pictures of one's own, uint8 (n, c, h, w) or (n, h, w, c), asked about in their order before
    any that are drawn. What comes out is then not data-free, and says so.

    `on_event` is told what happens (`dfml.events`). Without one a notebook draws it; elsewhere nothing is shown.
    """
    tell = on_event or progress_here() or (lambda event: None)
    keep_freed_memory()
    settings = list(settings)
    hardware = find_hardware(device, precision)
    chosen = find_method(method)
    if chosen.NEEDS_WEIGHTS and engine != "local":
        raise ConfigError(f"{method} works on the APIs' weights in this process; run it with --engine local")
    boxes = _open(apis, with_weights=chosen.NEEDS_WEIGHTS, device=hardware.device)
    specs = [api.spec for api in boxes]
    pictures = None if images is None else own_pictures(images)
    wanted = _with_pictures(override(_preset(chosen.PRESETS, preset), settings), pictures, method)
    config = chosen.plan(wanted, specs, budget=budget, budget_per_api=budget_per_api)
    _check_affordable(chosen, method, config, specs, budget=budget, budget_per_api=budget_per_api)
    own_budgets = {api.spec.name: api.spec.terms.budget for api in boxes if api.spec.terms.budget is not None}
    table: dict[str, Any] = {
        "method": method,
        "seed": seed,
        "apis": [api.spec.name for api in boxes],
        **({"budget": budget} if budget is not None else {}),
        **({"budget_per_api": budget_per_api} if budget_per_api is not None else {}),
        **({"budgets": own_budgets} if own_budgets else {}),
        **({"precision": "mixed"} if hardware.mixed else {}),
        **({"taught_with": {"pictures": len(pictures), "digest": digest(pictures)}} if pictures is not None else {}),
        **({"exact_answers": True} if exact_answers else {}),
        "settings": to_mapping(config),
    }
    planned = _flat(table["settings"])
    if resume and (Path(out) / "config.toml").exists():
        by_preset, named = _by_preset(chosen.PRESETS, preset), _named(settings)
        config, table = _as_begun(Path(out), config, table, by_preset=by_preset, named=named)
    with ExitStack() as open_files:
        if isinstance(apis, str | Path):
            for api in boxes:
                open_files.callback(release, api)
        where = open_files.enter_context(open_engine(engine, address))
        boxes = where.spread(boxes)
        if not (Path(out) / "config.toml").exists():  # a run that is resumed may have all its answers
            _check_reachable(boxes)
        run = open_files.enter_context(RunFolder(out, table, resume=resume))
        if run.finished:
            finished = Initialisation.load(run.initialisation)
            if "short" not in finished.provenance:
                return finished
        short: dict[str, Any] = {}
        purse = Purse()

        def emit(event: Event) -> None:
            if isinstance(event, FellShort):
                short.update(got=event.got, planned=event.planned, what=event.what, reason=event.reason)
            run.write(event)
            if isinstance(event, Step | Visited) and event.api:
                tell(purse.look(event.api))
            tell(event)

        emit(estimate(chosen, config, specs, budget=budget, budget_per_api=budget_per_api))
        kept = {key: value for key, value in _flat(table["settings"]).items() if planned.get(key) != value}
        if kept:
            begun = ", ".join(f"{key}={value}" for key, value in kept.items())
            emit(Remark(text=f"the run goes on as it was begun, with {begun}"))
        shared = None if budget is None else Budget(budget)
        metered = []
        for api in boxes:
            own = min((b for b in (budget_per_api, api.spec.terms.budget) if b is not None), default=None)
            ledger = Ledger(
                ledger_path(run.path, api.spec.name),
                budget=own,
                shared=shared,
                forgive_doubt=forgive_doubt,
                exact=exact_answers,
            )
            metered.append(Metered(api, open_files.enter_context(ledger)))
            purse.add(metered[-1])
            ledger.rest()
            known = api.spec
            emit(
                ApiJoined(
                    api=known.name,
                    classes=known.classes,
                    image=known.image,
                    accuracy=known.accuracy,
                    price=known.terms.price,
                )
            )
        started = time.monotonic()
        place = Workplace(metered, run, seed, emit, budget, budget_per_api, hardware, where, pictures)
        learned = chosen.run(config, place).on("cpu")
        provenance = {**table, **hardware.notes, "queries": place.queries, "dfml": dfml.__version__}
        if short:
            provenance["short"] = short
        initialisation = replace(learned, provenance=json.loads(json.dumps(provenance)))
        initialisation.save(run.initialisation)
        write_card(run.path, run_card(initialisation.provenance, [_teacher(api) for api in metered]))
        seconds = round(time.monotonic() - started, 1)
        emit(LearningFinished(queries=place.queries, seconds=seconds, peak_memory_mb=peak_memory_mb()))
        return initialisation


def _teacher(api: Metered) -> Teacher:
    spec, asked = api.spec, api.ledger.queries + api.ledger.unusable
    usd = None if spec.terms.price is None else asked * spec.terms.price / 1000
    return Teacher(spec.name, spec.way, api.ledger.queries, usd)


def settings_from(path: Path) -> list[str]:
    """The overrides that a TOML file stands for: tables are groups of settings, other keys are settings themselves."""
    try:
        tables = tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise ConfigError(f"{path} does not exist; name a TOML file of settings") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read as settings ({error}); name a TOML file") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None
    settings = []
    for name, value in tables.items():
        group = {f"{name}.{key}": inner for key, inner in value.items()} if isinstance(value, dict) else {name: value}
        settings += [f"{key}={tomli_w.dumps({'value': v}).partition('=')[2].strip()}" for key, v in group.items()]
    return settings


def _as_begun(
    run: Path, config: Any, table: dict[str, Any], *, by_preset: set[str], named: set[str]
) -> tuple[Any, dict[str, Any]]:
    """The plan that a run began with, where a new one differs from it only in what nobody asks for now.

    That is, in no setting that the command has `named`, and in none `by_preset` that the run knew: there may be more to
    a preset than when the run was begun with it. What follows from the APIs, the budgets and the defaults of this
    version may have changed meanwhile, and of a field that the run's config lacks, methods understand the default as
    they worked before. Another plan would ask about other images, and what is paid for would be of no use. Where
    nothing was answered or learned yet there is nothing to lose: then the command and the manifest as they are now
    decide.
    """
    before = read_config(run)
    old = before.get("settings", {})
    known, new = _flat(old), _flat(table["settings"])
    changed = {key for key in known.keys() | new.keys() if known.get(key) != new.get(key)}
    same = all(before.get(key) == table.get(key) for key in (before.keys() | table.keys()) - {"settings", *BUDGETS})
    if not changed or not same:
        return config, table  # equal, or a difference of which the run folder tells
    if spending(run)["queries"] == 0 and not has_learned(run):
        start_again(run, table)
        return config, table
    if others := sorted(changed & (named | (by_preset & known.keys()))):
        begun = ", ".join(f"{key}={known[key]}" if key in known else f"no {key}" for key in others)
        raise ConfigError(f"{run} was begun with {begun}, and goes on so; leave that open, or choose another --out")
    return from_mapping(type(config), old, where=str(run / "config.toml")), {**table, "settings": old}


def _by_preset(presets: dict[str, Any], preset: str | None) -> set[str]:
    """The settings in which a preset differs from the default."""
    usual, chosen = (_flat(to_mapping(_preset(presets, name))) for name in (None, preset))
    return {key for key in usual.keys() | chosen.keys() if usual.get(key) != chosen.get(key)}


def _named(settings: Iterable[str]) -> set[str]:
    """The settings that are assigned to."""
    return {assignment.partition("=")[0].strip() for assignment in settings}


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested tables as one, with dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def _open(apis: str | Path | Sequence[BlackBox], *, with_weights: bool, device: torch.device) -> list[BlackBox]:
    boxes: list[BlackBox]
    if not isinstance(apis, str | Path):
        boxes = list(apis)
    elif with_weights:
        boxes = list(load_white_boxes(apis, device=device))
    else:
        boxes = load_apis(apis)
    if not boxes:
        raise ConfigError("there is no API to learn from; pass at least one")
    names = [api.spec.name for api in boxes]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"API names must differ, but {', '.join(twice)} stands twice; rename one")
    return boxes


def _check_affordable(
    method: Method,
    name: str,
    config: Any,
    specs: Sequence[ApiSpec],
    *,
    budget: int | None,
    budget_per_api: int | None,
) -> None:
    """Refuse to ask remote or priced APIs without any limit, and say what that would have come to."""
    if budget is not None or budget_per_api is not None:
        return
    queries = method.cost(config, specs)
    unbounded = [
        spec.name
        for spec, count in zip(specs, queries, strict=True)
        if spec.terms.costs and spec.terms.budget is None and count
    ]
    if unbounded:
        price = sum(count * (spec.terms.price or 0) / 1000 for spec, count in zip(specs, queries, strict=True))
        money = f" for {price:,.2f} USD" if price else ""
        raise ConfigError(
            f"{len(unbounded)} of {len(specs)} APIs are remote or priced and have no budget, {unbounded[0]} among "
            f"them; {name} would send {sum(queries):,} queries{money}: allow that with --budget {sum(queries)}, or less"
        )


def _check_reachable(apis: Sequence[BlackBox]) -> None:
    """Refuse to begin when every API is remote and none of their servers answers; one that does is enough to begin."""

    def problem(api: BlackBox) -> ApiError | None:
        try:
            reach(api)
        except ApiError as error:
            return error
        return None

    if not all(api.spec.terms.remote for api in apis):
        return
    with ThreadPoolExecutor(min(64, len(apis))) as pool:
        problems = list(pool.map(problem, apis))
    if all(problems):
        first = str(problems[0])
        what = f"none of the {len(apis)} APIs can be asked (the first: {first})" if len(apis) > 1 else first
        raise Unreachable(f"{what}; see that they are up and that the addresses are right")


def _with_pictures(config: Any, pictures: torch.Tensor | None, method: str) -> Any:
    """The config of a method that asks about the user's own pictures; others refuse."""
    if pictures is not None and "own_images" not in {field.name for field in fields(config)}:
        raise ConfigError(f"{method} makes its images by itself; only chorus asks about pictures of your own")
    if pictures is None:
        if getattr(config, "own_images", 0):
            raise ConfigError("own_images follows from the pictures; pass those with --images FOLDER instead")
        return config
    return replace(config, own_images=len(pictures))


def _preset(presets: dict[str, Any], name: str | None) -> Any:
    if (name or "default") not in presets:
        raise ConfigError(f"unknown preset {name!r}; {nearest(str(name), presets)}")
    return presets[name or "default"]
