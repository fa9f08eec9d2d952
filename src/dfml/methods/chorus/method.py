"""Chorus: ask every API about the same pictures drawn from nothing, and distil all their answers into one student."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote

from dfml.apis.blackbox import ApiSpec
from dfml.errors import ApiError, ConfigError, Unreachable
from dfml.events import ApiFailed, ApiWeighed, Distilled, LearningStarted, Step
from dfml.images.prior import prior
from dfml.initialisation import Initialisation
from dfml.methods import Workplace
from dfml.methods.budgets import within_budgets
from dfml.methods.chorus.asking import AnswerTable, ask_all, surest
from dfml.methods.chorus.student import ChorusDistilConfig, ChorusStudent
from dfml.methods.meta_model import MetaModelConfig
from dfml.nets.functional import Net, normalise
from dfml.nets.statistics import batch_statistics
from dfml.rng import derive_seed, stream

FEWEST = 20
"""queries an API below which its answers say nothing"""
POINTS = 100
"""of the learning curve that the run keeps"""
CHECKPOINT_SECONDS = 20.0
STEP_SECONDS = 0.06
"""one core's, of a Conv4-32 on 128 images"""
NEEDS_WEIGHTS, ASKS_TOGETHER = False, True


@dataclass(frozen=True, kw_only=True)
class ChorusConfig:
    """Everything; each field is a `--set group.key=value`."""

    queries: int = 1000
    """images every API is asked about; a smaller budget lowers it"""
    net: MetaModelConfig = MetaModelConfig()
    distil: ChorusDistilConfig = ChorusDistilConfig()


PRESETS = {"default": ChorusConfig(), "thorough": ChorusConfig(queries=5000)}


def plan(
    config: ChorusConfig, specs: Sequence[ApiSpec], *, budget: int | None, budget_per_api: int | None
) -> ChorusConfig:
    """As many images as the budget pays for at every API."""
    bounds = [config.queries]
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
    return replace(config, queries=min(bounds), net=config.net.fitted(specs))


def cost(config: ChorusConfig, specs: Sequence[ApiSpec]) -> list[int]:
    """Queries to each API."""
    return within_budgets([config.queries] * len(specs), specs)


def effort(config: ChorusConfig, specs: Sequence[ApiSpec]) -> float:
    """Seconds of one core: the student's updates."""
    return config.distil.steps * STEP_SECONDS


def run(config: ChorusConfig, place: Workplace) -> Initialisation:
    """Ask, then distil. A resumed run finds its answers in the ledger and its student in the checkpoint."""
    steps, checkpoint = config.distil.steps, place.run.checkpoint
    place.emit(LearningStarted(method="chorus", apis=len(place.apis), iterations=steps, budget=place.budget))
    answers = _ask(config, place)
    _keep_surest(answers, place)
    spec = config.net.spec
    device, net = place.hardware.device, Net(spec, mixed=place.hardware.mixed)
    start = net.init(stream(place.seed, "meta-model"), device=device)
    student = ChorusStudent(net, start, answers.on(device), config.distil, rng=stream(place.seed, "distil"))
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
    for api, weight in zip(place.apis, student.trust.tolist(), strict=True):
        place.emit(ApiWeighed(api=api.spec.name, weight=round(weight, 3)))
    some = answers.images[:512].to(device).float() / 255
    statistics = batch_statistics(spec, student.params, normalise(some))
    return Initialisation(student.params, spec, statistics, expected=student.expected(some))


def _ask(config: ChorusConfig, place: Workplace) -> AnswerTable:
    size, channels = config.net.size, config.net.channels
    images = prior(config.queries, seed=derive_seed(place.seed, "pool"), size=size, channels=channels)
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

    answers = ask_all(
        place.apis,
        images,
        counts=counts,
        workers=place.engine.workers,
        waiting=place.engine.waiting,
        on_answers=on_answers,
        on_failure=on_failure,
    )
    if not bool(answers.asked.any()):
        raise Unreachable(
            f"none of the {len(place.apis)} APIs answered (the last: {reasons[-1]}); "
            "put that right, then go on with --resume"
        )
    return answers


def _keep_surest(answers: AnswerTable, place: Workplace) -> None:
    """The images that say most about each API, to look at: learning does not read them."""
    place.run.recovered.mkdir(exist_ok=True)
    for column, api in enumerate(place.apis):
        if bool(answers.asked[:, column].any()):
            file = place.run.recovered / f"{quote(api.spec.name, safe='')}.safetensors"
            surest(answers, column, api.spec).save(file)
