"""Work side by side: results, progress and failures."""

import os
import signal

import pytest

from dfml.engine.pool import Finished, WorkProgress, side_by_side
from dfml.errors import ConfigError, DfmlError


def square(item, report):
    report(0.5)
    return item * item, os.getpid()


def complain(item, report):
    raise ConfigError("this cannot work; do it otherwise")


def die(item, report):
    os.kill(os.getpid(), signal.SIGKILL)


def test_every_item_is_worked_on_in_another_process_and_reported():
    events = list(side_by_side(square, [1, 2, 3], workers=2))
    results = {event.index: event.result[0] for event in events if isinstance(event, Finished)}
    assert results == {0: 1, 1: 4, 2: 9}
    assert all(event.result[1] != os.getpid() for event in events if isinstance(event, Finished))
    assert {event.index for event in events if isinstance(event, WorkProgress)} == {0, 1, 2}


def test_nothing_to_do_starts_nothing():
    assert list(side_by_side(square, [])) == []


def test_an_explained_failure_arrives_as_itself():
    with pytest.raises(ConfigError, match="this cannot work"):
        list(side_by_side(complain, [1]))


def test_a_killed_worker_is_explained():
    with pytest.raises(DfmlError, match="worker process was killed"):
        list(side_by_side(die, [1]))
