"""The paper's method as a whole: what it spends, when it stops, how it resumes, what it survives."""

import pytest
import torch

from dfml.apis.blackbox import ApiSpec
from dfml.apis.ledger import spending
from dfml.apis.local.module import ModuleApi
from dfml.errors import ConfigError, DfmlError
from dfml.events import ApiFailed, Replayed, Visited
from dfml.initialisation import Initialisation
from dfml.learning import learn as learn_by
from dfml.methods.bidf_mkd import plan
from dfml.methods.bidf_mkd.settings import PAPER, RELEASED
from dfml.recovery.objectives import RecoveryObjective
from outcomes import events_of, same

SET = 5 * (3 + 1) * 3 * 8
"""steps * (directions + 1) * ways * images a class: the closed form of METHOD's bookkeeping"""


def learn(apis, out, *, method="bidf-mkd", **arguments):
    return learn_by(apis, out, method=method, **arguments)


def test_the_queries_are_those_of_the_closed_form(apis, small, tmp_path):
    learn(apis, tmp_path / "run", settings=[*small, "schedule.visits=3", "schedule.iterations=6"])
    assert sum(api.answered for api in apis) == 3 * 2 * SET
    assert spending(tmp_path / "run")["queries"] == 3 * 2 * SET


def test_the_papers_setting_costs_what_the_paper_costs():
    assert PAPER.recovery.queries(5) == 200 * 101 * 150 == 3_030_000


@pytest.mark.parametrize(("budget", "spent"), [(SET, SET), (2 * SET + 100, 2 * SET), (3 * SET, 3 * SET)])
def test_a_spent_budget_is_a_normal_end(apis, small, tmp_path, budget, spent):
    learn(apis, tmp_path / "run", settings=[*small, "schedule.iterations=8"], budget=budget)
    assert sum(api.answered for api in apis) == spent
    assert events_of(tmp_path / "run", "Replayed")


def test_a_budget_per_api_binds_each(apis, small, tmp_path):
    learn(apis, tmp_path / "run", settings=[*small, "schedule.iterations=8"], budget_per_api=SET + 10)
    assert [api.answered for api in apis] == [SET, SET]


def test_a_budget_below_one_set_is_refused_with_the_number_it_takes(apis, small, tmp_path):
    with pytest.raises(ConfigError, match=f"takes {SET:,} queries"):
        learn(apis, tmp_path / "run", settings=small, budget=SET - 1)
    assert not (tmp_path / "run").exists()


def test_the_same_seed_gives_the_same_bits_and_another_seed_others(apis, small, tmp_path):
    settings = [*small, "schedule.visits=2", "schedule.iterations=5"]
    first, again, other = (
        learn(apis, tmp_path / name, settings=settings, seed=seed) for name, seed in (("a", 0), ("b", 0), ("c", 1))
    )
    assert same(first, again)
    assert not same(first, other)


@pytest.mark.parametrize("stop_after", [0, 1, 3, 6])
def test_a_run_stopped_anywhere_resumes_to_the_same_bits_and_pays_nothing_twice(apis, small, tmp_path, stop_after):
    settings = [*small, "schedule.visits=3", "schedule.iterations=9"]
    whole = learn(apis, tmp_path / "whole", settings=settings)
    paid = sum(api.answered for api in apis)
    seen = 0

    def stop(event):
        nonlocal seen
        seen += isinstance(event, Visited | Replayed)
        if seen > stop_after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learn(apis, tmp_path / "run", settings=settings, on_event=stop)
    assert not (tmp_path / "run" / "init.safetensors").exists()
    resumed = learn(apis, tmp_path / "run", settings=settings, resume=True)
    assert same(whole, resumed)
    assert sum(api.answered for api in apis) == 2 * paid


def test_learning_goes_on_by_replay_without_an_api_and_takes_it_up_again(apis, small, tmp_path, monkeypatch):
    monkeypatch.setattr("dfml.methods.bidf_mkd.learner.RETRY_ITERATIONS", 2)
    failed = []

    def watch(event):
        if isinstance(event, Visited) and event.iteration == 0:
            for api in apis:
                api.up = False
        if isinstance(event, ApiFailed):
            failed.append(event)
        if isinstance(event, Replayed) and event.iteration == 5:
            for api in apis:
                api.up = True

    learn(apis, tmp_path / "run", settings=[*small, "schedule.visits=3", "schedule.iterations=12"], on_event=watch)
    assert failed
    kinds = [event["event"] for event in events_of(tmp_path / "run")]
    assert kinds.count("Visited") == 3
    assert kinds.count("Replayed") == 12 - 3


def test_when_nobody_answers_at_all_it_says_so(apis, small, tmp_path):
    for api in apis:
        api.up = False
    with pytest.raises(DfmlError, match="no API answered"):
        learn(apis, tmp_path / "run", settings=[*small, "schedule.visits=1", "schedule.iterations=3"])


@pytest.mark.parametrize("switch", ["distil", "boundary", "replay"])
def test_every_component_can_be_switched_off(apis, small, tmp_path, switch):
    settings = [*small, "schedule.visits=2", "schedule.iterations=4"]
    full = learn(apis, tmp_path / "full", settings=settings)
    less = learn(apis, tmp_path / "less", settings=[*settings, f"components.{switch}=false"])
    assert not same(full, less)
    kinds = [event["event"] for event in events_of(tmp_path / "less")]
    assert ("Replayed" in kinds) == (switch != "replay")
    visits = events_of(tmp_path / "less", "Visited")
    assert all((event["outer_loss"] is None) == (switch == "distil") for event in visits)


def test_apis_may_have_other_ways_than_the_meta_model(small, tmp_path):
    from colour_apis import colour_api

    apis = [colour_api("three", 3), colour_api("five", 5, seed=4)]
    init = learn(apis, tmp_path / "run", settings=[*small, "net.way=3", "schedule.visits=2", "schedule.iterations=3"])
    assert init.net.way == 3
    assert {event["api"] for event in events_of(tmp_path / "run", "Visited")} == {"three", "five"}


def test_the_length_follows_from_the_budget(apis):
    per_set = PAPER.recovery.queries(3)
    specs = [api.spec for api in apis]
    planned = plan(PAPER, specs, budget=None, budget_per_api=None)
    assert (planned.schedule.iterations, planned.schedule.visits) == (60_000, 300)
    open_end = plan(type(PAPER)(recovery=PAPER.recovery), specs, budget=10 * per_set, budget_per_api=None)
    assert open_end.schedule.visits == 5


def test_the_released_schedule_visits_when_replay_stops_improving(apis, small, tmp_path):
    settings = [*small, "schedule.plateau=2", "schedule.iterations=10"]
    learn(apis, tmp_path / "run", settings=settings)
    log = events_of(tmp_path / "run", "Visited", "Replayed")
    best, since, due = 0.0, 0, True
    for event in log:  # the rule, told independently of the code
        assert (event["event"] == "Visited") == due
        if event["event"] == "Visited":
            best, since = 0.0, 0
        elif event["accuracy"] > best:
            best, since = event["accuracy"], 0
        else:
            since += 1
        due = since >= 2
    assert RELEASED.schedule.plateau == 200


def test_the_students_statistics_may_be_those_of_each_batch(apis, small, tmp_path):
    settings = [*small, "schedule.visits=1", "schedule.iterations=1"]
    frozen = learn(apis, tmp_path / "frozen", settings=settings)
    assert not same(frozen, learn(apis, tmp_path / "batch", settings=[*settings, "distil.statistics=batch"]))


def test_the_run_folder_keeps_another_config_out(apis, small, tmp_path):
    settings = [*small, "schedule.visits=1", "schedule.iterations=1"]
    learn(apis, tmp_path / "run", settings=settings)
    with pytest.raises(ConfigError, match="finished run; add --resume"):
        learn(apis, tmp_path / "run", settings=settings)
    with pytest.raises(ConfigError, match=r"another config \(seed was 0, not 1\)"):
        learn(apis, tmp_path / "run", settings=settings, seed=1)
    assert isinstance(learn(apis, tmp_path / "run", settings=settings, resume=True), Initialisation)


def test_random_costs_nothing(apis, tmp_path):
    init = learn(apis, tmp_path / "run", method="random")
    assert sum(api.answered for api in apis) == 0
    assert init.net.way == 3
    assert init.provenance["queries"] == 0


def test_sets_may_come_from_a_pool_instead(apis, small, tmp_path):
    settings = [*small, "recovery.strategy=pool", "recovery.pool=100", "schedule.visits=2", "schedule.iterations=4"]
    learn(apis, tmp_path / "run", settings=settings)
    assert sum(api.answered for api in apis) == 2 * 2 * 100


def test_the_white_boxs_gradients_are_those_of_central_differences(small, tmp_path, monkeypatch, rng):
    """Those that a run really uses, of boundary sets, where API and student name one class and both move the value."""
    net = torch.nn.Sequential(torch.nn.AvgPool2d(8), torch.nn.Flatten(), torch.nn.Linear(12, 3))
    net[2].weight.data, net[2].bias.data = torch.randn(3, 12, generator=rng), torch.zeros(3)
    api = ModuleApi(net, ApiSpec(name="pooled", classes=("a", "b", "c"), image=(3, 16, 16)))
    used = []

    def watched(objective, x, *, exact):
        used.append((x.clone(), original(objective, x, exact=exact)))
        return used[-1][1]

    original = RecoveryObjective.at
    monkeypatch.setattr(RecoveryObjective, "at", watched)
    settings = [*small, "recovery.estimator=exact", "schedule.visits=1", "schedule.iterations=1"]
    learn([api], tmp_path / "run", method="white-box", settings=settings)
    boundary = [(x, here) for x, here in used if here.agree is not None]
    assert len(boundary) == 5  # steps
    right = []
    for x, here in boundary:
        assert here.gradient is not None
        norm = here.gradient.flatten(1).norm(dim=1)
        step = 1e-3 * here.gradient / norm.view(-1, 1, 1, 1)
        slope = (here((x + step)[None]) - here((x - step)[None]))[0] / 2e-3
        right.append(((slope / norm - 1).abs() < 0.05)[here.agree])
    assert len(torch.cat(right)) > 20
    assert torch.cat(right).float().mean() > 0.75  # the student has kinks, and some images lie at one
