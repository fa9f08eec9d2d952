"""What learning says of itself while it works: how far, how long still, at what price."""

from typing import Any

import numpy as np
import pytest

from dfml.apis.blackbox import ApiSpec, Terms
from dfml.apis.local.function import FunctionApi
from dfml.events import Event, LearningStarted, Planned, Replayed, Spent, Step, Visited
from dfml.learning import learn
from dfml.status import LearningStatus


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def visited(iteration: int) -> Visited:
    return Visited(iteration=iteration, api="a", queries=10, support_reached=1.0, query_reached=1.0)


def test_visits_and_replays_have_a_pace_each():
    """Two visits of 30 s and eight replays of 1 s are 68 s; a mean over all iterations would promise wrongly."""
    clock = Clock()
    status = LearningStatus(clock)
    status.see(LearningStarted(method="m", apis=2, iterations=10, budget=None, visits=2))
    clock.now = 30.0
    status.see(visited(0))
    clock.now = 31.0
    status.see(Replayed(iteration=1, loss=1.0, accuracy=0.5))
    assert (status.done, status.total) == (2, 10)
    assert status.to_go == pytest.approx(30 + 7 * 1)


def test_what_was_not_begun_takes_as_long_as_planned():
    """Asking goes on for 20 s at its pace, and distilling, of which nothing is known, for the 100 s of the plan."""
    clock = Clock()
    status = LearningStatus(clock)
    status.see(Planned(queries=400, usd=None, seconds=100.0, memory=0, disk=0))
    assert status.to_go == 100
    status.see(LearningStarted(method="m", apis=1, iterations=50, budget=None))
    clock.now = 7.0  # pictures were drawn
    status.see(Step(stage="asking", done=100, total=400, objective=0.0, api="a"))
    clock.now = 17.0
    status.see(Step(stage="asking", done=200, total=400, objective=0.0, api="a"))
    assert status.to_go == pytest.approx(20 + 100)
    status.see(Step(stage="asking", done=400, total=400, objective=0.0, api="a"))
    clock.now = 50.0
    status.see(Step(stage="distilling", done=1, total=50, objective=2.0))
    clock.now = 54.0
    status.see(Step(stage="distilling", done=5, total=50, objective=2.0))
    assert status.to_go == pytest.approx(45)


def test_money_is_told_where_there_is_a_price():
    status = LearningStatus(Clock())
    status.see(LearningStarted(method="m", apis=1, iterations=1, budget=5000))
    status.see(Spent(queries=1200, usd=1.8))
    assert status.text == "learning, 1,200 of 5,000 queries for 1.80 USD"
    status.see(Spent(queries=1200, usd=None))
    assert "USD" not in status.text


def test_a_priced_run_tells_what_it_has_paid_and_no_more(tmp_path):
    """3 USD for 1,000 images: 40 answers are 12 cents, and what a resumed run finds on file costs nothing again."""
    spec = ApiSpec(name="toy", classes=("light", "dark"), image=(3, 8, 8), terms=Terms(price=3.0))

    def light(images):
        mean = images.mean((1, 2, 3))
        return np.stack([mean, 1 - mean], 1)

    seen: list[Event] = []
    arguments: dict[str, Any] = {"settings": ["distil.steps=1"], "budget": 40, "on_event": seen.append}
    learn([FunctionApi(light, spec)], tmp_path / "run", **arguments)
    last = [event for event in seen if isinstance(event, Spent)][-1]
    assert last.queries == 40
    assert last.usd == pytest.approx(0.12)
    (tmp_path / "run" / "init.safetensors").unlink()
    seen.clear()
    learn([FunctionApi(light, spec)], tmp_path / "run", resume=True, **arguments)
    assert {event.queries for event in seen if isinstance(event, Spent)} == {40}
