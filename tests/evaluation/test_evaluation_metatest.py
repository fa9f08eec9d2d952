"""Meta-test: the same tasks for everybody, and equal shares of several data sets."""

import pytest

from dfml.errors import ConfigError
from dfml.evaluation.metatest import TaskProtocol, meta_test
from dfml.evaluation.transductive import HeadConfig
from dfml.initialisation import Initialisation
from dfml.nets import NetSpec
from dfml.nets.functional import Net
from dfml.rng import stream

PROTOTYPE = HeadConfig(head="prototype")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    spec = NetSpec(width=8)
    path = tmp_path_factory.mktemp("init") / "init.safetensors"
    Initialisation(Net(spec).init(stream(0)), spec).save(path)
    return path


def test_workers_share_the_tasks_without_changing_them(saved):
    protocol = TaskProtocol(tasks=60, shot=1, head=PROTOTYPE)  # two chunks
    seen = []
    one = meta_test(saved, protocol, workers=1, on_task=seen.append)
    assert one == meta_test(saved, protocol, workers=2)
    assert seen[-1] == 60
    assert 20 < one.mean < 100, "an untrained network still beats chance on glyphs"
    assert one != meta_test(saved, TaskProtocol(tasks=60, shot=1, head=PROTOTYPE, seed=1), workers=2)


def test_more_shots_help(saved):
    one, five = (meta_test(saved, TaskProtocol(tasks=50, shot=shot, head=PROTOTYPE)) for shot in (1, 5))
    assert five.mean > one.mean + one.ci95


def test_the_inductive_product_is_measured_on_the_same_tasks(saved):
    task, frozen = (meta_test(saved, TaskProtocol(tasks=20, head=PROTOTYPE, inductive=i)) for i in (False, True))
    assert task != frozen
    assert frozen.mean > 20


def test_three_data_sets_take_turns(saved, real_data):
    protocol = TaskProtocol(dataset="mh", tasks=3, shot=1, head=PROTOTYPE)
    assert meta_test(saved, protocol, data=real_data).tasks == 3


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"tasks": 0}, "at least 1 task"),
        ({"dataset": "mh"}, "mh needs --data"),
        ({"dataset": "omniglot"}, "unknown data set"),
    ],
)
def test_what_cannot_be_evaluated_is_refused(saved, changes, complaint):
    with pytest.raises(ConfigError, match=complaint):
        meta_test(saved, TaskProtocol(**changes))
