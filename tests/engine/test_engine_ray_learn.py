"""`learn` on a Ray cluster: the same bits and the same bill as at home, whatever the cluster does."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import diary_server
import numpy as np
import pytest
import torch

import dfml
from dfml.apis.blackbox import ApiSpec
from dfml.apis.degrade import Quantised, Rounded
from dfml.apis.ledger import Ledger, Metered, spending
from dfml.apis.ledger.ledger import LOSSES
from dfml.apis.local.function import FunctionApi
from dfml.errors import BudgetExceeded, ConfigError, Refused, Unreachable
from dfml.nets import NetSpec
from dfml.rng import stream
from outcomes import same

pytestmark = pytest.mark.ray
SMALL = ["queries=60", "net.width=4", "distil.steps=3"]
TINY = [
    "recovery.steps=3",
    "recovery.directions=2",
    "recovery.images_per_class=4",
    "recovery.filters=4",
    "recovery.latent=8",
    "recovery.early_stop=false",
    "recovery.limit=1000",
    "net.width=4",
]
REPLAY = ["memory.require_agreement=false", "replay.shot=1", "replay.query=2", "replay.batch=2", "distil.inner_steps=2"]
BIDF = [*TINY, *REPLAY, "schedule.visits=2", "schedule.iterations=3"]


def colours(name, seed):
    """An API that computes in NumPy: a softmax over random weights of the image's mean colours."""
    weights = np.random.default_rng(seed).normal(size=(3, 3)) * 9

    def answer(images):
        scores = np.exp((images.mean((2, 3)) - 0.5) @ weights)
        return scores / scores.sum(1, keepdims=True)

    return FunctionApi(answer, ApiSpec(name=name, classes=("a", "b", "c"), image=(3, 16, 16)))


def bill(run):
    return {name: (api["queries"], api["in_doubt"]) for name, api in spending(run)["apis"].items()}


def test_a_zoo_teaches_the_same_at_home_and_on_a_cluster(cluster, tiny_zoo, tmp_path):
    local = dfml.learn(tiny_zoo, tmp_path / "local", settings=SMALL)
    away = dfml.learn(tiny_zoo, tmp_path / "ray", settings=SMALL, engine="ray")
    assert same(local, away)
    assert bill(tmp_path / "local") == bill(tmp_path / "ray") == dict.fromkeys(bill(tmp_path / "ray"), (60, 0))
    assert (tmp_path / "local/config.toml").read_text() == (tmp_path / "ray/config.toml").read_text()


@pytest.mark.parametrize("method", ["bidf-mkd", "single-dfkd", "distill-avg"])
def test_every_method_learns_the_same_from_functions(cluster, tmp_path, method):
    settings = BIDF if method == "bidf-mkd" else TINY

    def learn(out, engine):
        return dfml.learn([colours("x", 1), colours("y", 2)], out, method=method, settings=settings, engine=engine)

    assert same(learn(tmp_path / "local", "local"), learn(tmp_path / "ray", "ray"))
    assert bill(tmp_path / "local") == bill(tmp_path / "ray")


def test_a_torch_module_under_wrappers_answers_the_same_bits_however_many_threads_ask_it_here(cluster, tmp_path, rng):
    from dfml.apis.local.module import ModuleApi
    from dfml.engine.choice import open_engine

    net = NetSpec(arch="conv4", way=3, size=32).build(rng=stream(0, "net"))
    api = Rounded(Quantised(ModuleApi(net, ApiSpec(name="m", classes=("a", "b", "c"), image=(3, 32, 32)))), 6)
    images = torch.rand(300, 3, 32, 32, generator=rng)
    with open_engine("ray") as engine:
        (there,) = engine.spread([api])
        away = there(images)
    for threads in (1, 2):
        torch.set_num_threads(threads)
        assert torch.equal(api(images), away)


def test_the_budget_is_exact_and_a_run_begun_on_one_engine_goes_on_with_the_other(cluster, tmp_path):
    class Stop(Exception):
        pass

    def stop(event):
        if getattr(event, "stage", "") == "distilling":
            raise Stop

    with diary_server.serving() as (diary, url):
        path = diary_server.manifest(tmp_path, url, 3, "budget = 45")
        for engine, error in (("ray", Stop), ("local", None), ("ray", None)):
            arguments: dict[str, Any] = {"settings": SMALL, "budget": 90, "resume": True, "engine": engine}
            if error is not None:
                with pytest.raises(error):
                    dfml.learn(path, tmp_path / "run", **arguments, on_event=stop)
            else:
                dfml.learn(path, tmp_path / "run", **arguments)
        assert bill(tmp_path / "run") == {f"api-{i}": (30, 0) for i in range(3)}
        assert {name: diary.answered(name) for name in diary.asked} == {f"api-{i}": 30 for i in range(3)}


def test_no_budget_is_passed_by_asking_again(cluster, tmp_path, rng):
    """Every first try brings nothing of use: what a node asks for again is paid for here, or not sent."""
    from dfml.apis.loading import load_apis
    from dfml.engine.choice import open_engine
    from strangers import serving

    sent = Counter()

    def respond(request):
        if request.method == "POST":
            count = request.json()["inputs"][0]["shape"][0]
            sent["images"] += count
            sent[request.path, request.body] += 1
            if sent[request.path, request.body] == 1:
                return (200, {}, b"{") if "api-0" in request.path else None  # garbled, or hung up: in doubt
        return diary.respond(request)

    diary = diary_server.Diary(0.0)
    images = torch.rand(8, 3, 16, 16, generator=rng)
    with serving(respond) as server, open_engine("ray") as engine:
        path = diary_server.manifest(tmp_path, server.url, 2, "limits.images_per_request = 2")
        for name, there in enumerate(engine.spread(load_apis(path))):
            for budget in (11, 16):
                sent.clear()
                with Ledger(tmp_path / f"{name}-{budget}.sqlite", budget=budget) as ledger:
                    api = Metered(there, ledger)
                    if budget == 11:
                        with pytest.raises(BudgetExceeded, match="2 more queries would pass"):
                            api(images)
                    else:
                        assert api(images).shape == (8, 3)
                        assert ledger.queries == 8
                    wasted = ledger.in_doubt if name else ledger.unusable
                    assert ledger.queries + wasted == sent["images"] <= budget


def test_a_rate_limit_holds_for_an_api_wherever_it_is_asked(cluster, tmp_path):
    with diary_server.serving() as (diary, url):
        path = diary_server.manifest(tmp_path, url, 1, "limits.rate = 20", "limits.images_per_request = 3")
        dfml.learn(path, tmp_path / "run", settings=SMALL, budget=60, engine="ray")
    assert len(diary.times) == 20
    assert diary.times[-1] - diary.times[0] > 0.9 * 19 / 20  # a late first request may shorten it by a little


def test_secrets_reach_the_server_and_no_log(cluster, tmp_path, monkeypatch):
    secret = "s3cret-of-the-zoo"
    monkeypatch.setenv("ZOO_KEY", secret)
    with diary_server.serving() as (diary, url):
        path = diary_server.manifest(tmp_path, url, 2, "headers.Key = '${ZOO_KEY}'")
        dfml.learn(path, tmp_path / "run", settings=SMALL, budget=120, engine="ray")
    assert set(diary.keys) == {secret}
    logs = [file for file in Path(cluster.head_node.get_session_dir_path()).rglob("*") if file.is_file()]
    assert any("worker" in file.name for file in logs)
    for file in [*logs, *(tmp_path / "run").rglob("*.*")]:
        if file.is_file():
            assert secret.encode() not in file.read_bytes(), file


def test_an_apis_error_is_the_same_sentence_of_the_same_class(cluster, tmp_path):
    from dfml.apis.loading import load_apis
    from dfml.engine.choice import open_engine
    from strangers import serving

    images = torch.zeros(2, 3, 16, 16)
    with serving(lambda request: (401, {}, b"who are you")) as server:
        path = diary_server.manifest(tmp_path, server.url, 1)
        (here,) = load_apis(path)
        with pytest.raises(Refused) as local:
            here(images)
        with open_engine("ray") as engine:
            (there,) = engine.spread(load_apis(path))
            with pytest.raises(Refused) as away:
                there(images)
    assert str(away.value) == str(local.value)
    assert "api-0: it answered 401: who are you" in str(away.value)
    assert type(away.value) is type(local.value)


def test_servers_that_no_node_can_reach_are_one_sentence(cluster, tmp_path):
    with diary_server.serving() as (_, url):
        pass
    path = diary_server.manifest(tmp_path, url, 2)
    with pytest.raises(Unreachable, match="none of the 2 APIs can be asked"):
        dfml.learn(path, tmp_path / "run", settings=SMALL, budget=120, engine="ray")
    assert not (tmp_path / "run").exists()


def test_what_cannot_travel_is_one_sentence(cluster, tmp_path):
    lock = threading.Lock()
    api = FunctionApi(lambda images: lock.acquire(), ApiSpec(name="bound", classes=("a", "b"), image=(3, 16, 16)))
    with pytest.raises(ConfigError, match=r"bound: it cannot be sent to another machine .* --engine local"):
        dfml.learn([api], tmp_path / "run", settings=SMALL, engine="ray")


def dying(name, deaths):
    """An API whose process is killed once for each file in the folder `deaths`; it takes one away each time."""
    brightness = ApiSpec(name=name, classes=("dark", "bright"), image=(3, 16, 16))

    def answer(images):
        left = sorted(deaths.iterdir())
        if left:
            left[0].unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        bright = images.mean((1, 2, 3))
        return np.stack([1 - bright, bright], 1)

    return FunctionApi(answer, brightness)


class Slow:
    """Answers one image at a time, and writes a line for each."""

    def __init__(self, diary):
        self.spec, self.diary = ApiSpec(name="slow", classes=("dark", "bright"), image=(1, 2, 2)), diary

    def __call__(self, images):
        raise AssertionError("it streams")

    def answers_in_parts(self, images):
        for row, image in enumerate(images):
            with open(self.diary, "a") as file:
                file.write(f"{image.mean():.6f}\n")
            time.sleep(0.02)
            yield [row], torch.stack([1 - image.mean(), image.mean()])[None]


def test_what_nobody_wants_any_more_is_not_sent(cluster, tmp_path, rng):
    from ray import cloudpickle

    from dfml.engine.choice import open_engine

    images = torch.rand(500, 1, 2, 2, generator=rng)
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        with open_engine("ray") as engine:
            there: Any
            (there,) = engine.spread([Slow(tmp_path / "diary")])
            parts = there.answers_in_parts(images)
            next(parts)
            parts.close()
            assert torch.equal(there(images[:3])[:, 1], images[:3].mean((1, 2, 3)))  # it has its turn, and its own rows
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    assert len((tmp_path / "diary").read_text().splitlines()) < 500


@pytest.mark.parametrize("deaths", [1, LOSSES])
def test_a_killed_process_is_replaced_until_that_is_hopeless(cluster, tmp_path, deaths):
    (tmp_path / "deaths").mkdir()
    for number in range(deaths):
        (tmp_path / "deaths" / str(number)).touch()
    apis = [dying("mortal", tmp_path / "deaths"), colours("well", 1)]
    learn: dict[str, Any] = {"settings": SMALL, "engine": "ray"}
    failed = []
    away = dfml.learn(
        apis, tmp_path / "ray", **learn, on_event=lambda e: failed.append(e) if type(e).__name__ == "ApiFailed" else 0
    )
    if deaths < LOSSES:
        assert same(away, dfml.learn(apis, tmp_path / "local", settings=SMALL))
        assert bill(tmp_path / "ray") == {"mortal": (60, 60 * deaths), "well": (60, 0)}
    assert not failed, "an API that fails is tried once more when the others are done"


def test_the_command_joins_a_cluster_by_its_address(cluster, tiny_zoo, tmp_path):
    command = [sys.executable, "-m", "dfml", "learn", str(tiny_zoo), "--engine", "ray", "--address", cluster.address]
    command += [word for setting in SMALL for word in ("--set", setting)] + ["--out", str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "is learned, from 180 queries" in done.stdout
    said = [line for line in done.stderr.splitlines() if not re.search(r"^at most 180 queries|^\d+ s: |^and \d", line)]
    assert not said, "besides our own progress nothing is said: Ray is quiet"


@pytest.mark.parametrize("address", ["127.0.0.1:1", "somewhere"])
def test_a_cluster_that_is_not_there_is_one_sentence(tmp_path, tiny_zoo, address):
    command = [sys.executable, "-m", "dfml", "learn", str(tiny_zoo), "--engine", "ray", "--address", address]
    done = subprocess.run([*command, "--out", str(tmp_path / "run")], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.strip().startswith(
        ("dfml: there is no Ray cluster to join at 127", "dfml: somewhere is no address")
    )
    assert done.stderr.strip().count("\n") == 0
