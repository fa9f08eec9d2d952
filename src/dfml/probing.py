"""A handful of queries to every API: what it takes, what it answers, whether probes can see anything, what it costs."""

import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dfml.apis.blackbox import BlackBox, OutputKind, endpoint_of
from dfml.apis.ledger import Ledger, Metered, ledger_path
from dfml.apis.scores import label_entropy
from dfml.errors import ConfigError, DfmlError
from dfml.images.prior import prior
from dfml.methods import METHODS, find_method
from dfml.methods.estimate import estimate
from dfml.recovery.gradients import snap
from dfml.rng import stream

BATCH = 8
PAPER = 0.005
RADII = (PAPER, 0.05, 0.5, 2.0)
"""lengths of a probe in [0, 1] pixel space: the paper's mu first"""
QUERIES = 1 + 1 + BATCH + len(RADII)
"""one image, the same again, a batch, and one for each radius"""
AT_ONCE = 4
"""servers that are probed side by side: more would measure each other's load"""


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What one API showed; `problem` where it did not come to an end."""

    name: str
    classes: tuple[str, ...]
    image: tuple[int, int, int]
    levels: int | None
    """256 where images travel as 8-bit values"""
    problem: str | None = None
    output: OutputKind | None = None
    named: int | None = None
    """classes that an answer names"""
    decimals: int | None = None
    """of its scores; None where they are not rounded"""
    label_entropy: float | None = None
    """bits by which the labels of its pictures vary"""
    deterministic: bool | None = None
    seconds: float | None = None
    """for one image"""
    seconds_in_batch: float | None = None
    """for one image, when asked about several"""
    images_per_request: int | None = None
    """after what the server said about a request of several; None for local APIs"""
    visible_radius: float | None = None
    """the shortest probe that changes an answer"""
    sees_paper_radius: bool | None = None
    queries: int = 0
    """images that it answered"""
    unusable: int = 0
    """images whose answers could not be used, and are paid for"""
    in_doubt: int = 0
    """images that were sent and never answered"""


@dataclass(frozen=True, kw_only=True)
class CostEstimate:
    """What learning would cost, at most; and how many queries are to be expected."""

    method: str
    preset: str
    queries: int
    expected: int
    usd: float
    seconds: float | None
    """of waiting for answers"""
    computing: float
    """seconds of one core, besides"""
    memory: int
    """bytes at the peak, besides those of local APIs"""
    disk: int
    """bytes of the run folder"""


def probe(
    apis: Sequence[BlackBox], *, budget: int = QUERIES, out: Path | None = None
) -> tuple[list[Findings], list[CostEstimate]]:
    """Ask every API at most `QUERIES` times, through ledgers in `out` or in a folder that vanishes."""
    if budget < QUERIES:
        raise ConfigError(f"probing takes {QUERIES} queries an API; raise --budget from {budget}")
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(AT_ONCE) as pool:
        place = Path(scratch) if out is None else out
        remote = [api for api in apis if api.spec.terms.remote]
        futures = {api.spec.name: pool.submit(_examine, api, place) for api in remote}
        findings = [
            futures[api.spec.name].result() if api.spec.name in futures else _examine(api, place) for api in apis
        ]
    return findings, estimates(apis, findings)


def _examine(api: BlackBox, place: Path) -> Findings:
    spec = api.spec
    found = Findings(name=spec.name, classes=spec.classes, image=spec.image, levels=spec.levels)
    budget = QUERIES if spec.terms.budget is None else min(QUERIES, spec.terms.budget)
    # The same image a second time needs a second ledger, because the first one knows its answer.
    with (
        Ledger(ledger_path(place, spec.name), budget=max(0, budget - 1)) as ledger,
        Ledger(ledger_path(place, f"{spec.name} again"), budget=min(1, budget)) as again,
    ):
        try:
            found = _ask(found, api, Metered(api, ledger), Metered(api, again))
        except DfmlError as error:
            found = replace(found, problem=str(error))
        return replace(
            found,
            queries=ledger.queries + again.queries,
            unusable=ledger.unusable + again.unusable,
            in_doubt=ledger.in_doubt + again.in_doubt,
        )


def _ask(found: Findings, api: BlackBox, first: Metered, second: Metered) -> Findings:
    channels, height, width = api.spec.image
    pictures = prior(1 + BATCH, seed=0, size=max(8, height, width), channels=channels).float() / 255
    pictures = pictures[:, :, :height, :width].contiguous()
    endpoint, sent = endpoint_of(api), list[Any]()
    one, _ = _timed(first, pictures[:1])
    if endpoint is not None:
        sent.append(endpoint.last_scores)
    same, seconds = _timed(second, pictures[:1])  # the first time there was a connection to open, or a file
    batch, together = _timed(first, pictures[1:])
    if endpoint is not None:
        sent.append(endpoint.last_scores)
    answers = torch.cat([one, batch])
    scores = [row for part in sent for row in _rows(part)] or [r.tolist() for r in answers]
    found = replace(
        found,
        label_entropy=round(label_entropy(answers), 3),
        deterministic=torch.equal(one, same),
        seconds=seconds,
        seconds_in_batch=together / BATCH,
        images_per_request=None if endpoint is None else endpoint.images_per_request,
        **_kind(answers, scores),
    )
    doubtful = int((-answers.clamp(min=1e-9).log() * answers).sum(1).argmax())  # where an answer can still change
    here, step = pictures[doubtful : doubtful + 1], torch.randn(1, *api.spec.image, generator=stream(0, "probe"))
    step /= step.norm()
    seen = [
        radius for radius in RADII if not torch.equal(first(_moved(here, step, radius, found)), answers[[doubtful]])
    ]
    return replace(found, visible_radius=min(seen, default=None), sees_paper_radius=PAPER in seen)


def _timed(api: BlackBox, images: Tensor) -> tuple[Tensor, float]:
    begun = time.monotonic()
    return api(images), time.monotonic() - begun


def _moved(image: Tensor, step: Tensor, radius: float, found: Findings) -> Tensor:
    """The probe as it arrives."""
    probe = (image + radius * step).clamp(0, 1)
    return probe if found.levels is None else snap(probe, found.levels)


def _rows(scores: Any) -> list[list[float]]:
    """The numbers in an answer, as they came."""
    if isinstance(scores, np.ndarray):
        return [[float(score) for score in row] for row in scores]
    return [[score for _, score in pairs if score is not None] for pairs in scores]


def _kind(answers: Tensor, scores: list[list[float]]) -> dict[str, Any]:
    """Kind of answer, how many classes it names, decimals of its scores."""
    way = answers.shape[1]
    if bool(((answers == 0) | (answers == 1)).all()):
        return {"output": "label", "named": 1, "decimals": None}
    named = max(map(len, scores), default=way)
    if named == way:  # all classes have a score; those of one and the same, smallest score were perhaps never named
        ties = (answers == answers.min(1, keepdim=True).values).sum(1)
        named = way if int(ties.min()) < 2 else way - int(ties.min())
    given = [score for row in scores for score in sorted(row, reverse=True)[:named]]
    return {"output": "probs" if named == way else "top-k", "named": named, "decimals": _decimals(given)}


def _decimals(scores: list[float]) -> int | None:
    """The fewest decimals that all scores have, if that is at most 5; float32 cannot tell more."""
    for decimals in range(6):
        if all(abs(score - round(score, decimals)) <= 1e-7 for score in scores):
            return decimals
    return None


def estimates(apis: Sequence[BlackBox], findings: Sequence[Findings]) -> list[CostEstimate]:
    """What each method would cost with each of its presets, without a budget."""
    costs, specs = [], [api.spec for api in apis]
    for name in METHODS:
        method = find_method(name)
        presets = {} if method.NEEDS_WEIGHTS else method.PRESETS
        for preset, settings in presets.items():
            try:
                planned = method.plan(settings, specs, budget=None, budget_per_api=None)
            except ConfigError:  # budgets in the manifest that are too small for this method
                continue
            queries = method.cost(planned, specs)
            planned_run = estimate(method, planned, specs)
            waits = [
                count * _pace(api, found)
                for count, api, found in zip(queries, apis, findings, strict=True)
                if found.seconds_in_batch is not None
            ]
            seconds = (max if method.ASKS_TOGETHER else sum)(waits) if waits else None
            costs.append(
                CostEstimate(
                    method=name,
                    preset=preset,
                    queries=planned_run.queries,
                    expected=sum(method.expected(planned, specs)),
                    usd=planned_run.usd or 0.0,
                    seconds=seconds,
                    computing=planned_run.seconds,
                    memory=planned_run.memory,
                    disk=planned_run.disk,
                )
            )
    return costs


def _pace(api: BlackBox, found: Findings) -> float:
    """Seconds an image: what was measured, or what the rate allows."""
    measured, endpoint = found.seconds_in_batch or 0.0, endpoint_of(api)
    if endpoint is None or endpoint.requests_per_second is None:
        return measured
    return max(measured, 1 / (endpoint.requests_per_second * endpoint.images_per_request))
