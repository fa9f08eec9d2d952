"""Chorus: ask many APIs about pictures drawn from nothing, and distil all their answers into one student.

Pictures of the user's own, where there are some, are asked about first.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal
from urllib.parse import quote

import torch
from torch import Tensor

from dfml.apis.blackbox import ApiSpec, shrunk
from dfml.apis.scores import label_entropy
from dfml.errors import ApiError, ConfigError, Unreachable
from dfml.events import ApiFailed, ApiHeard, ApiWeighed, Distilled, FellShort, LearningStarted, Remark, Step
from dfml.images.prior import Pictures, prior
from dfml.initialisation import Initialisation
from dfml.methods import Workplace
from dfml.methods.budgets import within_budgets
from dfml.methods.chorus.asking import AnswerTable, ask_all, surest
from dfml.methods.chorus.sharing import shared_out, spread_for
from dfml.methods.chorus.student import ChorusDistilConfig, ChorusStudent
from dfml.methods.chorus.vocabulary import Vocabulary, agreeing
from dfml.methods.footprint import (
    CALL,
    LOADED,
    Footprint,
    activation_bytes,
    feature_count,
    image_bytes,
    ledger_bytes,
    multiplications,
)
from dfml.methods.meta_model import MetaModelConfig, most_common
from dfml.nets import NetSpec
from dfml.nets.functional import Net, normalise
from dfml.nets.statistics import batch_statistics
from dfml.rng import derive_seed, stream
from dfml.runtime import Map, cores, single_cores

FEWEST = 20
"""queries an API below which its answers say nothing"""
USUAL, MOST = 1000, 5000
"""queries an API without a budget, and with one that is larger"""
MOST_STEPS, FEWEST_STEPS = 2828, 1000
"""updates for `USUAL` queries an API at most, and for any number at least"""
SMALL_API = 96
"""pixels of a side up to which APIs are asked about pictures of their own size"""
VIEWS = 90
"""times that a student may see a picture, with what an API says of it: then it knows them by heart"""
MEASURED = 2048
"""pictures on which it is measured how what the student sees and expects varies"""
POINTS = 100
"""of the learning curve that the run keeps"""
CHECKPOINT_SECONDS = 20.0
STEP_SECONDS = 0.06
"""one core's, of a Conv4-32 on 128 images of 32 pixels"""
PICTURE_SECONDS = 7e-4
"""one core's, to draw a picture of 32 pixels"""
NEEDS_WEIGHTS, ASKS_TOGETHER = False, True


@dataclass(frozen=True, kw_only=True)
class ChorusConfig:
    """Everything; each field is a `--set group.key=value`."""

    queries: int = 0
    """images every API is asked about; a smaller budget lowers it. 0: 1,000 besides the user's own, or what a budget
    pays for, up to 5,000"""
    spread: int = 0
    """drawn pictures for each query, of which an API is asked about one: the more, the fewer APIs hear of each; 0: as
    suits the number of APIs (`sharing`)"""
    pictures: Literal["auto", "mixed", "painted"] = "auto"
    """what is drawn: scenes that are painted, or as many made by random networks beside them; auto takes both"""
    picture_size: int = 0
    """pixels of a side of what is drawn, which the student sees at its own size; 0: as most APIs take if that is at
    most 96, else as the student does. Of sharp pictures small APIs tell more, large ones what it cannot see"""
    own_images: int = 0
    """pictures of the user's own, which are asked about first; follows from what `learn` is given"""
    net: MetaModelConfig = MetaModelConfig(arch="conv4-growing", width=16, largest=48)
    distil: ChorusDistilConfig = ChorusDistilConfig()


PRESETS = {
    "default": ChorusConfig(),
    "thorough": ChorusConfig(queries=5000),
    "strong": ChorusConfig(
        queries=5000,
        net=MetaModelConfig(arch="conv4-growing", width=48, largest=48),
        distil=ChorusDistilConfig(parts=4),
    ),  # a student three times as wide: five times the work
}


def plan(
    config: ChorusConfig, specs: Sequence[ApiSpec], *, budget: int | None, budget_per_api: int | None
) -> ChorusConfig:
    """As many images as the budget pays for at every API, and as many updates as suit them."""
    limited = budget is not None or budget_per_api is not None
    usual = config.own_images + USUAL
    bounds = [config.queries or (max(MOST, usual) if limited else usual)]
    if budget is not None:
        bounds.append(budget // len(specs))
    if budget_per_api is not None:
        bounds.append(budget_per_api)
    for spec in specs:
        own = spec.terms.budget
        if own is not None and own < FEWEST:
            raise ConfigError(f"{spec.name}: its budget of {own} queries is too small to learn from; give it {FEWEST}")
    if min(bounds) < FEWEST:
        raise ConfigError(
            f"the budget leaves {min(bounds)} queries an API, too few to learn from; "
            f"{len(specs)} APIs need at least {FEWEST * len(specs):,} in all"
        )
    if not 0 <= config.spread <= len(specs):
        raise ConfigError(
            f"spread={config.spread} cannot be: {len(specs)} APIs can share from 1 to {len(specs)} pictures a query, "
            "or else nobody hears of some; 0 chooses"
        )
    queries, distil = min(bounds), config.distil
    learned = distil.steps * distil.batch if distil.steps else None
    spread = config.spread or spread_for(queries, [spec.way for spec in specs], learned=learned)
    pictures = sum(_pictures(replace(config, queries=queries, spread=spread)))
    turns = max(1.0, len(specs) / distil.heard)  # updates until every API has been listened to
    suitable_steps = min(turns * VIEWS * pictures / distil.batch, MOST_STEPS * (queries / USUAL) ** (1 / 3))
    distil = replace(
        distil,
        steps=distil.steps or max(FEWEST_STEPS, round(suitable_steps)),
        power=distil.power or (0.5 if config.own_images else 1.0),
        classes="by-name" if distil.classes == "auto" else distil.classes,
        optimiser="muon" if distil.optimiser == "auto" else distil.optimiser,
    )
    net = config.net.fitted(specs)
    taken = most_common([spec.image[1] for spec in specs])
    suitable = max(net.size, taken) if taken <= SMALL_API else net.size
    return replace(
        config,
        queries=queries,
        spread=spread,
        pictures="mixed" if config.pictures == "auto" else config.pictures,
        picture_size=config.picture_size or suitable,
        net=net,
        distil=distil,
    )


def _pictures(config: ChorusConfig) -> tuple[int, int]:
    """How many of the user's own are asked about, and how many are drawn."""
    own = min(config.own_images, config.queries)
    return own, (config.queries - own) * _spread(config)


def _picture_size(config: ChorusConfig) -> int:
    """As planned; a run that was begun before there was a choice, and is resumed, drew at the student's size."""
    return config.picture_size or config.net.size


def _spread(config: ChorusConfig) -> int:
    """As planned; a run that was begun before there was a choice, and is resumed, asked every API the same."""
    return max(1, config.spread)


def cost(config: ChorusConfig, specs: Sequence[ApiSpec]) -> list[int]:
    """Queries to each API."""
    return within_budgets([config.queries] * len(specs), specs)


def expected(config: ChorusConfig, specs: Sequence[ApiSpec]) -> list[int]:
    """The same: no answer changes what is asked."""
    return cost(config, specs)


def effort(config: ChorusConfig, specs: Sequence[ApiSpec]) -> float:
    """Seconds of one core: the student's updates, and drawing pictures."""
    net, usual = config.net.spec, NetSpec(width=32, size=32)
    heads = feature_count(net) * sum(spec.way for spec in specs)
    work = config.distil.batch * (multiplications(net) + heads) / (128 * multiplications(usual))
    _, drawn = _pictures(config)
    return config.distil.steps * STEP_SECONDS * work + drawn * (_picture_size(config) / 32) ** 2 * PICTURE_SECONDS


def footprint(config: ChorusConfig, specs: Sequence[ApiSpec]) -> Footprint:
    """All answers and images, the heads with their gradients and moments, and what one update computes."""
    net, outputs = config.net.spec, len(specs) * max(spec.way for spec in specs)
    heads = 4 * (feature_count(net) + 1) * outputs
    own, drawn = _pictures(config)
    images = (own + drawn) * image_bytes(net) + drawn * net.channels * _picture_size(config) ** 2
    answers = 4 * sum(_pictures(config)) * outputs
    update = config.distil.batch * (activation_bytes(net) + 8 * 4 * outputs)
    shown = sum(min(20, spec.way) * 4 * (image_bytes(net) + 4 * spec.way) for spec in specs)
    ledgers = ledger_bytes(cost(config, specs), specs)
    return Footprint(LOADED + 2 * CALL + images + 2 * answers + 4 * heads + update, ledgers + 4 * heads + shown)


def run(config: ChorusConfig, place: Workplace) -> Initialisation:
    """Ask, then distil. A resumed run finds its answers in the ledger and its student in the checkpoint."""
    place.emit(
        LearningStarted(method="chorus", apis=len(place.apis), iterations=config.distil.steps, budget=place.budget)
    )
    for left in _left(config, place):
        place.emit(Remark(text=left))
    answers, (own, _) = _ask(config, place), _pictures(config)
    for column, api in enumerate(place.apis):
        said = answers.probs[answers.asked[:, column], column, : api.spec.way]
        place.emit(ApiHeard(api=api.spec.name, answers=len(said), label_entropy=round(label_entropy(said), 3)))
    _keep_surest(answers.rows(torch.arange(own, len(answers.images))), place)  # a user's are not copied
    spec, device, vocabulary = config.net.spec, place.hardware.device, _vocabulary(config, place, answers)
    with single_cores(cores()) as side_by_side:
        side_by_side = side_by_side if device.type == "cpu" else map
        student = _distil(config, place, answers.on(device), vocabulary, side_by_side)
        for api, weight in zip(place.apis, student.trust.tolist(), strict=True):
            place.emit(ApiWeighed(api=api.spec.name, weight=round(weight, 3)))
        some = answers.images[:MEASURED].to(device).float() / 255  # first the user's own, where there are some
        statistics = batch_statistics(spec, student.params, normalise(some[:512]))
        return Initialisation(student.params, spec, statistics, expected=student.expected(some))


def _distil(
    config: ChorusConfig, place: Workplace, answers: AnswerTable, vocabulary: Vocabulary, side_by_side: Map
) -> ChorusStudent:
    """A student that has learned the answers, from the checkpoint on where there is one."""
    steps, checkpoint = config.distil.steps, place.run.checkpoint
    net = Net(config.net.spec, mixed=place.hardware.mixed)
    start = config.net.begin(place.seed, device=answers.probs.device)
    rng = stream(place.seed, "distil")
    student = ChorusStudent(
        net, start, answers, config.distil, vocabulary=vocabulary, rng=rng, side_by_side=side_by_side
    )
    if place.run.resumed and checkpoint.exists():
        student.load(checkpoint)
    saved, unsaid = time.monotonic(), list[float]()
    while student.step < steps:
        loss = student.advance()
        place.emit(Step(stage="distilling", done=student.step, total=steps, objective=loss))
        unsaid.append(loss)
        if student.step * POINTS // steps > (student.step - 1) * POINTS // steps:
            place.emit(Distilled(iteration=student.step - 1, objective=round(sum(unsaid) / len(unsaid), 5)))
            unsaid.clear()
        if time.monotonic() - saved > CHECKPOINT_SECONDS:
            student.save(checkpoint)
            saved = time.monotonic()
    return student


def _vocabulary(config: ChorusConfig, place: Workplace, answers: AnswerTable) -> Vocabulary:
    """Which classes are one. A run begun before there was a choice, and resumed, has left it open: none are."""
    names = [api.spec.classes for api in place.apis]
    if config.distil.classes != "by-name":
        return Vocabulary.apart([len(of_api) for of_api in names])
    vocabulary, strangers = agreeing(names, answers)
    for api in strangers:
        text = (
            f"{place.apis[api].spec.name} means other things than others by the same names: its classes are kept apart"
        )
        place.emit(Remark(text=text))
    return vocabulary


def _left(config: ChorusConfig, place: Workplace) -> list[str]:
    """What the plan leaves of a budget, and of the user's own pictures."""
    told, budgets = [], [] if place.budget_per_api is None else [place.budget_per_api]
    if place.budget is not None:
        budgets.append(place.budget // len(place.apis))
    if (allowed := min(budgets, default=0)) > config.queries:
        told.append(
            f"the budget allows {allowed:,} queries an API, {config.queries:,} are asked; "
            f"--set queries={allowed} asks them all"
        )
    if config.own_images > config.queries:
        told.append(f"of {config.own_images:,} pictures of your own, the first {config.queries:,} are asked about")
    return told


def _ask(config: ChorusConfig, place: Workplace) -> AnswerTable:
    """The answers about the user's own pictures, then about drawn ones, with all pictures at the student's size."""
    shape = (config.net.channels, config.net.size, config.net.size)
    counts = cost(config, [api.spec for api in place.apis])
    answered, total = 0, sum(counts)
    reasons: list[str] = []

    def on_answers(api: str, count: int) -> None:
        nonlocal answered
        answered += count
        place.emit(Step(stage="asking", done=answered, total=total, objective=0.0, api=api))

    def on_failure(api: str, error: ApiError) -> None:
        reasons.append(str(error))
        place.emit(ApiFailed(iteration=0, api=api, reason=str(error)))

    def ask(images: Tensor, rows: list[Tensor]) -> AnswerTable:
        table = ask_all(
            place.apis,
            images,
            rows=rows,
            workers=place.engine.workers,
            waiting=place.engine.waiting,
            on_answers=on_answers,
            on_failure=on_failure,
        )
        return replace(table, images=shrunk(images, shape))

    tables, (own, drawn) = [], _pictures(config)
    seed = derive_seed(place.seed, "pool")
    if own and place.images is not None:
        first = place.images[:own]
        tables.append(ask(first, [torch.arange(min(own, count)) for count in counts]))
    if drawn:
        rows = shared_out([max(0, count - own) for count in counts], _spread(config), seed=seed)
        # A run begun before there was a choice, and resumed, has left it open: its pictures are painted.
        kind: Pictures = "mixed" if config.pictures == "mixed" else "painted"
        pictures = prior(drawn, seed=seed, size=_picture_size(config), channels=shape[0], kind=kind)
        tables.append(ask(pictures, rows))
    answers = AnswerTable.joined(tables)
    if not bool(answers.asked.any()):
        raise Unreachable(
            f"none of the {len(place.apis)} APIs answered (the last: {reasons[-1]}); "
            "put that right, then go on with --resume"
        )
    if (got := int(answers.asked.sum())) < total:
        place.emit(FellShort(got=got, planned=total, what="answers", reason=reasons[-1]))
    return answers


def _keep_surest(answers: AnswerTable, place: Workplace) -> None:
    """The images that say most about each API, to look at: learning does not read them."""
    place.run.recovered.mkdir(exist_ok=True)
    for column, api in enumerate(place.apis):
        if bool(answers.asked[:, column].any()):
            file = place.run.recovered / f"{quote(api.spec.name, safe='')}.safetensors"
            surest(answers, column, api.spec).save(file)
