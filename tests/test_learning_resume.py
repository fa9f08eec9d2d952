"""`--resume` completes: after a server died, a manifest was wrong, or a run was stopped near the end of its budget."""

import itertools
import threading
from typing import Any

import numpy as np
import pytest
import tomli_w
import torch

import dfml
from dfml.apis.blackbox import ApiSpec, Terms
from dfml.apis.ledger import Ledger, ledger_path, spending
from dfml.apis.local.function import FunctionApi
from dfml.cli import main
from dfml.errors import BudgetExceeded, ConfigError, Unreachable
from dfml.events import FellShort, Remark, Step
from dfml.methods import find_method
from dfml.runs import read_config
from strangers import model, serving

ANSWERS = ["--set", "queries=200", "--set", "distil.steps=3", "--set", "net.width=4"]
pytestmark = pytest.mark.usefixtures("no_long_rests")


def colours(request):
    """V2 for square images of any size: the honest server on 4 x 4 mean colours."""
    (tensor,) = request.json()["inputs"]
    images = np.frombuffer(request.tail, "<f4").reshape(tensor["shape"])
    step = images.shape[-1] // 4
    probs = model(images.reshape(len(images), 3, 4, step, 4, step).mean((3, 5)))
    body = {"outputs": [{"name": "p", "datatype": "FP32", "shape": [*probs.shape], "data": probs.ravel().tolist()}]}
    return 200, {}, body


def images_in(request):
    return request.json()["inputs"][0]["shape"][0]


def write(folder, url, *, models=("m",), classes="['ant', 'bee', 'cat']", image="[3, 16, 16]", more=""):
    text = f"[defaults]\nprotocol = 'inference_v2'\nurl = '{url}'\nlimits.retries = 1\nlimits.images_per_request = 1\n"
    text += f"limits.concurrency = 1\n{more}\n"
    for number, name in enumerate(models):
        text += f"[apis.api-{number}]\nmodel = '{name}'\n"
        text += f"classes = {classes if isinstance(classes, str) else classes[number]}\n"
        text += f"image = {image if isinstance(image, str) else image[number]}\n"
    (folder / "apis.toml").write_text(text)
    return str(folder / "apis.toml")


def learn(manifest, run, *more):
    return main(["learn", manifest, "--out", str(run), *ANSWERS, *more])


def same(one, other):
    first, second = (dfml.Initialisation.load(run / "init.safetensors").params for run in (one, other))
    return all(torch.equal(first[name], second[name]) for name in first)


def test_a_run_whose_server_died_says_how_far_it_came_and_is_completed(tmp_path, capsys):
    sent, well = itertools.count(), threading.Event()

    def respond(request):
        return colours(request) if well.is_set() or next(sent) < 61 else (503, {}, b"dead")

    with serving(respond) as server:
        manifest = write(tmp_path, server.url)
        assert learn(manifest, tmp_path / "run", "--budget", "200") == 3
        said = " ".join(capsys.readouterr().out.split())
        assert "is learned from 61 of 200 answers" in said
        assert "it answered 503: dead" in said
        assert "--resume gets the missing 139" in said
        well.set()
        before = len(server.requests)
        assert learn(manifest, tmp_path / "run", "--budget", "200", "--resume") == 0
        asked = [request for request in server.requests[before:] if request.method == "POST"]
        assert sum(map(images_in, asked)) == 139
        assert "from 200 queries" in " ".join(capsys.readouterr().out.split())
        assert learn(manifest, tmp_path / "whole", "--budget", "200") == 0
    assert same(tmp_path / "run", tmp_path / "whole")


def test_a_misspelt_model_is_corrected_and_only_it_is_asked(tmp_path, capsys):
    def respond(request):
        return (404, {}, b"no such model") if "/wrong/" in request.path else colours(request)

    with serving(respond) as server:
        manifest = write(tmp_path, server.url, models=("right", "wrong"))
        assert learn(manifest, tmp_path / "run", "--budget", "400") == 3
        assert "200 of 400 answers" in " ".join(capsys.readouterr().out.split())
        before = len(server.requests)
        manifest = write(tmp_path, server.url, models=("right", "correct"))
        assert learn(manifest, tmp_path / "run", "--budget", "400", "--resume") == 0
        assert all("/correct/" in request.path for request in server.requests[before:] if request.method == "POST")
    assert {name: api["queries"] for name, api in spending(tmp_path / "run")["apis"].items()} == {
        "api-0": 200,
        "api-1": 200,
    }


@pytest.mark.parametrize("others", [0, 1])
def test_classes_and_size_that_were_corrected_are_accepted(tmp_path, others, capsys):
    """Alone, or beside an API whose answers are on file and must not be asked for again."""

    def respond(request):
        side = request.json()["inputs"][0]["shape"][-1]
        return (400, {}, b"images are 32 x 32") if "/big/" in request.path and side != 32 else colours(request)

    models = ("small",) * others + ("big",)
    right = "['ant', 'bee', 'cat']"
    with serving(respond) as server:
        budget = ("--budget", str(200 * len(models) + 5))
        sizes = ("[3, 16, 16]",) * len(models)
        classes = (right,) * others + ("['ant', 'bee']",)
        manifest = write(tmp_path, server.url, models=models, classes=classes, image=sizes)
        assert learn(manifest, tmp_path / "run", *budget) == (3 if others else 1)
        sizes = ("[3, 16, 16]",) * others + ("[3, 32, 32]",)
        manifest = write(tmp_path, server.url, models=models, classes=classes, image=sizes)
        assert learn(manifest, tmp_path / "run", *budget, "--resume") == (3 if others else 1)
        capsys.readouterr()
        manifest = write(tmp_path, server.url, models=models, classes=(right,) * len(models), image=sizes)
        assert learn(manifest, tmp_path / "run", *budget, "--resume") == 0, capsys.readouterr().err
    spent = spending(tmp_path / "run")["apis"]
    assert [api["queries"] for api in spent.values()] == [200] * len(models)
    assert spent[f"api-{others}"]["unusable"] == 1
    assert read_config(tmp_path / "run")["settings"]["net"]["size"] == (16 if others else 32)


def test_answers_on_file_hold_the_classes_fast(tmp_path, capsys):
    with serving(colours) as server:
        assert learn(write(tmp_path, server.url), tmp_path / "run", "--budget", "200") == 0
        manifest = write(tmp_path, server.url, classes="['a', 'b', 'c']")
        assert learn(manifest, tmp_path / "run", "--budget", "200", "--resume") == 0, "it is finished"
        (tmp_path / "run" / "init.safetensors").unlink()
        assert learn(manifest, tmp_path / "run", "--budget", "200", "--resume") == 1
    assert "its answers no longer mean the same, so start a new run" in capsys.readouterr().err


def test_a_budget_may_be_raised_when_a_run_is_resumed(tmp_path, capsys):
    """What is in doubt eats into the budget; more money helps as well as forgiving."""
    with serving(colours) as server:
        manifest = write(tmp_path, server.url)
        assert learn(manifest, tmp_path / "run", "--budget", "200") == 0
        (tmp_path / "run" / "init.safetensors").unlink()
        with Ledger(ledger_path(tmp_path / "run", "api-0")) as ledger:
            ledger._journal._db.execute("DELETE FROM answers WHERE first > 99")
            ledger._journal._db.execute("INSERT INTO in_flight (count) VALUES (30)")
        assert learn(manifest, tmp_path / "run", "--budget", "200", "--resume") == 3
        said = " ".join(capsys.readouterr().out.split())
        assert "170 of 200 answers" in said
        assert "--forgive-doubt" in said
        assert learn(manifest, tmp_path / "run", "--budget", "230", "--resume") == 0
    assert read_config(tmp_path / "run")["budget"] == 230
    assert spending(tmp_path / "run")["queries"] == 200


# Methods that recover sets.

SET = 5 * (3 + 1) * 3 * 8
SMALL = [
    "recovery.steps=5", "recovery.directions=3", "recovery.estimator=sphere", "recovery.images_per_class=8",
    "recovery.filters=4", "recovery.latent=8", "recovery.early_stop=false", "recovery.limit=1000", "net.width=4",
]  # fmt: skip
BIDF = [
    *SMALL, "memory.require_agreement=false", "replay.shot=2", "replay.query=3", "replay.batch=1",
    "replay.inner_steps=1", "distil.inner_steps=1", "schedule.visits=1", "schedule.iterations=2",
]  # fmt: skip
STUDENT = [*SMALL, "distil.steps=2"]


def local(name="one", *, budget=None, calls=None):
    spec = ApiSpec(name=name, classes=("a", "b", "c"), image=(3, 16, 16), terms=Terms(budget=budget))

    def answer(images):
        if calls is not None:
            calls.append(len(images))
        return model(images.reshape(len(images), 3, 4, 4, 4, 4).mean((3, 5)))

    return FunctionApi(answer, spec)


class Stopped(Exception):
    """As if somebody pressed Ctrl-C."""


def stop_at(stage, step):
    def watch(event):
        if isinstance(event, Step) and event.stage == stage and event.done == step:
            raise Stopped

    return watch


@pytest.mark.parametrize(
    ("method", "settings", "sets", "stage"),
    [
        ("bidf-mkd", BIDF, 2, "recovering a query set"),
        ("bidf-mkd", BIDF, 2, "recovering a support set"),
        ("single-dfkd", STUDENT, 1, "recovering a set"),
        ("distill-avg", STUDENT, 1, "recovering a set"),
    ],
)
def test_a_run_stopped_in_a_set_is_completed_with_the_rest_of_its_budget(tmp_path, method, settings, sets, stage):
    calls = []
    options = {"method": method, "settings": settings, "budget": sets * SET}
    with pytest.raises(Stopped):
        dfml.learn([local(calls=calls)], tmp_path / "run", **options, on_event=stop_at(stage, 2))
    assert 0 < sum(calls) < sets * SET
    dfml.learn([local(calls=calls)], tmp_path / "run", **options, resume=True)
    assert sum(calls) == sets * SET
    dfml.learn([local()], tmp_path / "whole", **options)
    assert same(tmp_path / "run", tmp_path / "whole")


@pytest.mark.parametrize(("method", "settings"), [("bidf-mkd", BIDF), ("single-dfkd", STUDENT)])
def test_no_untrained_network_is_saved(tmp_path, method, settings):
    with pytest.raises(ConfigError, match="one: its budget of 5 queries is below one recovered set, which takes 480"):
        dfml.learn([local(budget=5)], tmp_path / "small", method=method, settings=settings)
    run, stage = tmp_path / "run", "recovering a support set" if method == "bidf-mkd" else "recovering a set"
    options = {"method": method, "settings": settings, "budget": SET}
    with pytest.raises(Stopped):
        dfml.learn([local()], run, **options, on_event=stop_at(stage, 0))
    with Ledger(ledger_path(run, "one")) as ledger:
        ledger._journal._db.execute("INSERT INTO in_flight (count) VALUES (1)")
    with pytest.raises(BudgetExceeded, match=r"nothing was learned; .*--forgive-doubt, so that the 1 queries in doubt"):
        dfml.learn([local()], run, **options, resume=True)
    assert not (run / "init.safetensors").exists()
    dfml.learn([local()], run, **options, resume=True, forgive_doubt=True)
    assert spending(run)["queries"] == SET


def test_a_run_that_an_older_version_began_goes_on_as_it_began(tmp_path):
    """It knew nothing of choices that came later, and what it has paid for is about the pictures of its own time."""
    since = {"spread": 1, "pictures": "painted"}
    since_distil = {"classes": "apart", "optimiser": "adam", "turn": 0.03}
    settings = ["queries=200", "distil.steps=3"]
    choices = ["net.arch=conv4", "net.width=4", *(f"{key}={value}" for key, value in since.items())]
    choices += [f"distil.{key}={value}" for key, value in since_distil.items()]
    calls = []
    with pytest.raises(Stopped):
        dfml.learn([local()], tmp_path / "run", settings=settings + choices, on_event=stop_at("distilling", 1))
    config = read_config(tmp_path / "run")
    for names, table in ((since, config["settings"]), (since_distil, config["settings"]["distil"])):
        for name in names:
            del table[name]
    (tmp_path / "run" / "config.toml").write_text(tomli_w.dumps(config))
    dfml.learn([local(calls=calls)], tmp_path / "run", settings=settings, resume=True)
    assert calls == []
    dfml.learn([local()], tmp_path / "whole", settings=settings + choices)
    assert same(tmp_path / "run", tmp_path / "whole")


def test_what_nobody_asks_for_now_follows_the_run(tmp_path):
    """A command that is typed again without its settings goes on; one that asks for others is told what differs."""
    settings = ["queries=200", "distil.steps=3", "net.width=4"]
    with pytest.raises(Stopped):
        dfml.learn([local()], tmp_path / "run", settings=settings, on_event=stop_at("distilling", 1))
    with pytest.raises(ConfigError, match=r"run was begun with net.width=4, and goes on so"):
        dfml.learn([local()], tmp_path / "run", settings=["net.width=8"], resume=True)
    with pytest.raises(
        ConfigError, match=r"run was begun with distil.parts=2, net.width=4, queries=200, and goes on so"
    ):
        dfml.learn([local()], tmp_path / "run", preset="strong", resume=True)
    calls, remarks = [], []
    watch = lambda event: remarks.append(event.text) if isinstance(event, Remark) else None  # noqa: E731
    dfml.learn([local(calls=calls)], tmp_path / "run", resume=True, on_event=watch)
    assert calls == []
    assert "the run goes on as it was begun, with queries=200, net.width=4, distil.steps=3" in remarks
    dfml.learn([local()], tmp_path / "whole", settings=settings)
    assert same(tmp_path / "run", tmp_path / "whole")


def test_a_preset_that_has_grown_meanwhile_goes_on_as_it_was(tmp_path):
    settings = ["queries=200", "distil.steps=3", "net.width=4"]
    with pytest.raises(Stopped):
        dfml.learn([local()], tmp_path / "run", preset="strong", settings=settings, on_event=stop_at("distilling", 1))
    config = read_config(tmp_path / "run")
    del config["settings"]["distil"]["parts"]
    (tmp_path / "run" / "config.toml").write_text(tomli_w.dumps(config))
    with pytest.raises(ConfigError, match=r"run was begun with no distil.parts, and goes on so"):
        dfml.learn([local()], tmp_path / "run", settings=[*settings, "distil.parts=3"], resume=True)
    calls = []
    dfml.learn([local(calls=calls)], tmp_path / "run", preset="strong", settings=settings, resume=True)
    assert calls == []


def test_what_was_learned_without_a_query_is_kept_under_its_own_settings(tmp_path):
    dfml.learn([local()], tmp_path / "run", method="random", settings=["net.width=4"])
    with pytest.raises(ConfigError, match=r"run was begun with net.width=4, and goes on so"):
        dfml.learn([local()], tmp_path / "run", method="random", settings=["net.width=8"], resume=True)
    assert read_config(tmp_path / "run")["settings"]["net"]["width"] == 4
    assert dfml.learn([local()], tmp_path / "run", method="random", resume=True).net.width == 4


def test_single_level_methods_tell_of_apis_that_failed_and_get_them_later(tmp_path):
    class Down:
        def __init__(self, api):
            self.spec = api.spec

        def __call__(self, images):
            raise Unreachable("two: down")

    short = []
    options: dict[str, Any] = {"method": "single-dfkd", "settings": STUDENT}
    watch = lambda event: short.append(event) if isinstance(event, FellShort) else None  # noqa: E731
    first = dfml.learn([local(), Down(local("two"))], tmp_path / "run", **options, on_event=watch)
    assert [(event.got, event.planned, event.what) for event in short] == [(1, 2, "sets")]
    assert first.provenance["short"]["reason"] == "two: down"
    calls = []
    done = dfml.learn([local(calls=calls), local("two")], tmp_path / "run", **options, resume=True)
    assert "short" not in done.provenance
    assert calls == []
    dfml.learn([local(), local("two")], tmp_path / "whole", **options)
    assert same(tmp_path / "run", tmp_path / "whole")


def test_bidf_mkd_makes_up_for_visits_that_failed(tmp_path):
    up = threading.Event()
    inner = local()

    class Sometimes:
        spec = inner.spec
        calls = 0

        def __call__(self, images):
            Sometimes.calls += 1
            if not up.is_set() and Sometimes.calls > 40:
                raise Unreachable("one: gone")
            return inner(images)

    settings = [*BIDF, "schedule.visits=3", "schedule.iterations=6", "schedule.visits_until=1.0"]
    first = dfml.learn([Sometimes()], tmp_path / "run", method="bidf-mkd", settings=settings)
    assert first.provenance["short"]["got"] < first.provenance["short"]["planned"] == 3
    up.set()
    done = dfml.learn([Sometimes()], tmp_path / "run", method="bidf-mkd", settings=settings, resume=True)
    assert "short" not in done.provenance
    assert done.provenance["queries"] == 3 * 2 * SET


# What it will cost.


def test_the_released_schedule_is_not_free(tmp_path):
    """150 iterations with a plateau of 200: the first one visits, whatever comes later."""
    method = find_method("bidf-mkd")
    spec = local().spec.with_changes(terms=Terms(price=1.0))
    settings = ["schedule.iterations=150"]
    config = dfml.config.override(method.PRESETS["released"], settings)
    planned = method.plan(config, [spec], budget=None, budget_per_api=None)
    assert method.cost(planned, [spec]) == method.expected(planned, [spec]) == [2 * 200 * 101 * 30 * 3]
    priced = FunctionApi(lambda images: pytest.fail("asked"), spec)
    with pytest.raises(ConfigError, match=r"bidf-mkd would send 3,636,000 queries for 3,636\.00 USD"):
        dfml.learn([priced], tmp_path / "run", method="bidf-mkd", preset="released", settings=settings)


def test_visits_are_planned_at_what_sets_will_probably_cost():
    method, spec = find_method("bidf-mkd"), local().spec
    config = method.PRESETS["default"]
    most = config.recovery.queries(3)
    planned = method.plan(config, [spec], budget=6 * most, budget_per_api=None)
    assert sum(method.expected(planned, [spec])) > 5 * most
    assert sum(method.cost(planned, [spec])) >= sum(method.expected(planned, [spec]))
