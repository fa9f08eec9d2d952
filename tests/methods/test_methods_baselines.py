"""Single-DFKD and Distill-Avg: where they must agree, and what they cost."""

import pytest
import torch

from dfml.errors import ConfigError, Unreachable
from dfml.learning import learn

SMALL = [
    "recovery.steps=3",
    "recovery.directions=2",
    "recovery.images_per_class=4",
    "recovery.filters=4",
    "recovery.latent=8",
    "recovery.early_stop=false",
    "recovery.estimator=sphere",
    "net.width=4",
    "distil.steps=3",
]
SET = 3 * (2 + 1) * 3 * 4
"""queries of one recovered set"""


def learned(apis, out, method, *more, **kwargs):
    return learn(apis, out, method=method, settings=[*SMALL, *more], **kwargs)


def test_of_one_api_both_are_the_same_student(apis, tmp_path):
    single, average = (learned(apis[:1], tmp_path / m, m) for m in ("single-dfkd", "distill-avg"))
    assert all(torch.equal(single.params[name], average.params[name]) for name in single.params)
    start = learn(apis[:1], tmp_path / "random", method="random", settings=["net.width=4"])
    assert not torch.equal(start.params["head.weight"], single.params["head.weight"])


def test_students_that_do_not_learn_average_to_their_start(apis, tmp_path):
    average = learned(apis, tmp_path / "average", "distill-avg", "distil.lr=0.0")
    start = learn(apis, tmp_path / "random", method="random", settings=["net.width=4"])
    assert all(torch.allclose(average.params[name], start.params[name]) for name in start.params)


@pytest.mark.parametrize("method", ["single-dfkd", "distill-avg"])
def test_every_api_is_asked_for_one_set(apis, tmp_path, method):
    init = learned(apis, tmp_path / "run", method)
    assert [api.answered for api in apis] == [SET, SET]
    assert init.provenance["queries"] == 2 * SET
    assert init.statistics, "classifiers need the statistics of learning"


def test_a_budget_is_never_passed(apis, tmp_path):
    learned(apis, tmp_path / "run", "single-dfkd", budget=SET + 10)
    assert sum(api.answered for api in apis) == SET
    with pytest.raises(ConfigError, match=f"below one recovered set, which takes {SET}"):
        learned(apis, tmp_path / "none", "single-dfkd", budget=SET - 1)


def test_one_silent_api_is_passed_over_and_all_silent_are_an_error(apis, tmp_path):
    apis[0].up = False
    learned(apis, tmp_path / "run", "distill-avg")
    assert apis[1].answered == SET
    apis[1].up = False
    with pytest.raises(Unreachable, match="none of the 2 APIs answered"):
        learned(apis, tmp_path / "silent", "distill-avg")
