"""What the threads of one call promise to who pays for their requests."""

import threading
import time

import pytest
import torch

from dfml.apis.remote.errands import Errands


def told(rows):
    """Answers that name their rows."""
    return torch.tensor([[float(row)] for row in rows])


@pytest.mark.parametrize("threads", [1, 3])
def test_every_row_is_asked_for_once_and_answered_in_its_place(threads):
    asked = []

    def ask(rows):
        asked.extend(rows)
        return told(rows)

    errands = Errands(100, ask, lambda: 7, name="test")
    found = {}
    while errands.staff(threads):
        for outcome in errands.outcomes():
            found.update(zip(outcome.rows, outcome.answers.flatten().tolist(), strict=True))
    assert sorted(asked) == list(range(100))
    assert found == {row: float(row) for row in range(100)}


def test_nobody_runs_ahead_of_who_keeps_the_answers():
    asked = []

    def ask(rows):
        asked.append(rows)
        return told(rows)

    errands = Errands(1000, ask, lambda: 1, name="test")
    errands.staff(3)
    waited = time.monotonic()
    while len(asked) < 6 and time.monotonic() < waited + 10:
        time.sleep(0.01)
    time.sleep(0.1)  # enough for hundreds
    assert len(asked) == 6
    left = errands.left()
    assert sorted(row for outcome in left for row in outcome.rows) == list(range(6))


def test_what_is_too_large_is_cut_and_asked_for_again():
    size = 8

    def ask(rows):
        nonlocal size
        if len(rows) > 2:
            size = len(rows) // 2
            return None
        return told(rows)

    errands = Errands(50, ask, lambda: size, name="test")
    found = []
    while errands.staff(2):
        found += [row for outcome in errands.outcomes() for row in outcome.rows]
    assert sorted(found) == list(range(50))


def test_after_a_failure_nothing_is_begun_and_what_is_under_way_still_counts():
    both, seen = threading.Barrier(2), threading.Event()
    asked = []

    def ask(rows):
        asked.append(rows)
        both.wait(10)
        if rows.start == 0:
            raise RuntimeError("no")
        assert seen.wait(10)  # answered after the other's failure was seen
        return told(rows)

    errands = Errands(10, ask, lambda: 1, name="test")
    outcomes = []
    while errands.staff(2):
        outcomes += errands.outcomes()
        seen.set()
    assert len(asked) == 2
    assert sorted(outcome.rows.start for outcome in outcomes) == [0, 1]
    by_row = {outcome.rows.start: outcome for outcome in outcomes}
    assert isinstance(by_row[0].error, RuntimeError)
    assert by_row[1].answers.tolist() == [[1.0]]


def test_no_rows_need_no_threads():
    errands = Errands(0, told, lambda: 1, name="test")
    assert not errands.staff(4)
    assert errands.left() == []
