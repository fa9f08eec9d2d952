"""TensorBoard's own reader finds what was written."""

import sys

import pytest

from dfml.errors import ConfigError
from dfml.events import ApiFailed, Distilled, LearningStarted, Visited
from dfml.report.tensorboard import TensorBoard


def test_tensorboard_reads_the_curves(tmp_path):
    accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    with TensorBoard(tmp_path) as board:
        board.show(LearningStarted(method="chorus", apis=1, iterations=2, budget=None))
        assert not (tmp_path / "tensorboard").exists(), "the run folder is not claimed yet"
        for iteration in range(3):
            board.show(Distilled(iteration=iteration, objective=0.5 / 2**iteration))
        board.show(Visited(iteration=7, api="a", queries=12, support_reached=0.5, query_reached=1.0))
        board.show(ApiFailed(iteration=8, api="a", reason="no answer"))
    read = accumulators.EventAccumulator(str(tmp_path / "tensorboard"))
    read.Reload()
    assert [(s.step, s.value) for s in read.Scalars("Distilled/objective")] == [(0, 0.5), (1, 0.25), (2, 0.125)]
    assert [(s.step, s.value) for s in read.Scalars("Visited/queries")] == [(7, 12.0)]
    assert "Visited/outer_loss" not in read.Tags()["scalars"], "what is not known is not drawn"
    assert not [tag for tag in read.Tags()["scalars"] if tag.startswith("ApiFailed")]


def test_without_the_package_there_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ConfigError, match="pip install 'dfml\\[tensorboard\\]'"):
        TensorBoard(tmp_path)
