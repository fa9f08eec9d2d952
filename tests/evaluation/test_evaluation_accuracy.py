import numpy as np
import pytest

from dfml.evaluation.accuracy import summarise


def test_the_interval_is_196_standard_errors():
    fractions = np.random.default_rng(0).random(50)
    accuracy = summarise(fractions.tolist())
    assert accuracy.mean == pytest.approx(100 * fractions.mean())
    assert accuracy.ci95 == pytest.approx(196 * fractions.std(ddof=1) / np.sqrt(50))
    assert accuracy.tasks == 50


def test_one_task_has_no_interval():
    assert summarise([0.5]).ci95 == 0.0
