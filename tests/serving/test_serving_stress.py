"""Learning through a server that fails one request in five loses nothing, pays nothing twice and changes no bit."""

import subprocess
import sys
import threading
import time
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
from live import serving, write_remote
from safetensors.torch import load_file

import dfml
from dfml.apis.blackbox import ApiSpec
from dfml.apis.ledger import spending
from dfml.apis.local.function import FunctionApi
from dfml.errors import Unreachable
from dfml.events import ApiFailed, Step
from dfml.methods.chorus import asking
from dfml.runtime import cores
from outcomes import events_of

KILLING = Path(__file__).with_name("killing_remote.py")
FAULTS = ("--fail-rate", "0.2", "--hang-ms", "20000", "--fail-seed", "1")
CHORUS = ["queries=64", "distil.steps=5", "net.width=4"]
BIDF = [
    "recovery.steps=2",
    "recovery.directions=2",
    "recovery.estimator=sphere",
    "recovery.images_per_class=4",
    "recovery.filters=4",
    "recovery.latent=8",
    "recovery.early_stop=false",
    "recovery.limit=1000",
    "memory.require_agreement=false",
    "net.width=4",
    "replay.shot=1",
    "replay.query=2",
    "schedule.visits=2",
    "schedule.iterations=3",
]
WAYS: dict[str, dict[str, Any]] = {
    "inference_v2": {"input": {"encoding": "uint8"}, "limits": {"timeout": 1.0, "images_per_request": 4}},
    "tf_serving": {"input": {"encoding": "png"}, "limits": {"timeout": 1.0, "images_per_request": 4}},
    "huggingface": {"limits": {"timeout": 1.0}},
}


@pytest.fixture(autouse=True)
def _short_rests(monkeypatch):
    """An API that failed is tried again soon, or these tests would mostly wait."""
    monkeypatch.setattr(asking, "REST", 0.5)


def counts(run: Path) -> dict[str, int]:
    return {name: api["queries"] for name, api in spending(run)["apis"].items()}


def same_bits(one: Path, other: Path) -> bool:
    """Whether two runs learned the same initialisation."""
    a, b = (load_file(run / "init.safetensors") for run in (one, other))
    return a.keys() == b.keys() and all(a[key].numpy().tobytes() == b[key].numpy().tobytes() for key in a)


def stress(zoo: Path, folder: Path, *, protocol: str, method: str, settings: list[str]) -> None:
    groups = WAYS[protocol]
    if method == "bidf-mkd":  # its images are floats
        groups = {"input": {"encoding": "fp32"}, "limits": {"timeout": 1.0, "images_per_request": 16}}
    dfml.learn(zoo, folder / "local", method=method, settings=settings)
    with serving(zoo, *FAULTS) as server:
        manifest = write_remote(folder / "apis.toml", zoo, server.url, protocol=protocol, **groups)
        dfml.learn(manifest, folder / "remote", method=method, settings=settings, budget=100_000)
        told = server.stats()
    assert not events_of(folder / "remote", "ApiFailed"), "the identity holds unless an API was given up"
    assert counts(folder / "remote") == {name: api["answered"] for name, api in told["apis"].items()}
    assert sum(counts(folder / "remote").values()) == told["answered"] > 100
    assert spending(folder / "remote")["queries"] == spending(folder / "local")["queries"]
    assert same_bits(folder / "local", folder / "remote")


@pytest.mark.parametrize("protocol", ["inference_v2", "huggingface"])
def test_chorus_through_faults(tiny_zoo, tmp_path, protocol):
    stress(tiny_zoo, tmp_path, protocol=protocol, method="chorus", settings=CHORUS)


@pytest.mark.slow
def test_chorus_through_faults_of_tf_serving(tiny_zoo, tmp_path):
    stress(tiny_zoo, tmp_path, protocol="tf_serving", method="chorus", settings=CHORUS)


@pytest.mark.slow
def test_bidf_mkd_through_faults(tiny_zoo, tmp_path):
    stress(tiny_zoo, tmp_path, protocol="inference_v2", method="bidf-mkd", settings=BIDF)


def test_dead_apis_delay_no_other(tiny_zoo, tmp_path):
    """Two of three answer nothing but 500: the third is done before either is given up."""
    names = sorted(dfml.load_apis(tiny_zoo), key=lambda api: api.spec.name)
    *dead, alive = [api.spec.name for api in names]
    asked, order = 0, list[str]()

    def watch(event: object) -> None:
        nonlocal asked
        if isinstance(event, Step) and event.stage == "asking" and event.api == alive:
            asked = event.done
            order.append("answered")
        elif isinstance(event, ApiFailed):
            order.append("given up")

    with serving(tiny_zoo, "--fail-rate", "1", "--fail-with", "500", "--fail-api", *dead) as server:
        limits = {"retries": 3}
        manifest = write_remote(tmp_path / "apis.toml", tiny_zoo, server.url, protocol="inference_v2", limits=limits)
        dfml.learn(manifest, tmp_path / "run", settings=CHORUS, budget=1000, on_event=watch)
        told = server.stats()
    assert order == ["answered", "given up", "given up"]
    assert asked == told["answered"] == told["apis"][alive]["answered"] == 64
    assert {line["api"] for line in events_of(tmp_path / "run", "ApiFailed")} == set(dead)


def test_apis_that_hang_delay_no_other(serve, tmp_path):
    """More of them than there are cores hang until the last one has answered everything; then they fail."""
    done, in_time = threading.Event(), list[bool]()
    spec = ApiSpec(name="alive", classes=("dark", "bright"), image=(3, 16, 16))

    def brightness(images):
        bright = images.mean((1, 2, 3))
        return np.stack([1 - bright, bright], 1)

    def hang(images):
        in_time.append(done.wait(30))
        raise Unreachable("it hung")

    def watch(event):
        if isinstance(event, Step) and event.stage == "asking" and event.api == "alive":
            done.set()

    hanging = [f"hanging-{number}" for number in range(cores() + 1)]
    client = serve(
        [*(FunctionApi(hang, spec.with_changes(name=name)) for name in hanging), FunctionApi(brightness, spec)]
    )
    common = {
        "protocol": "inference_v2",
        "url": str(client.base_url),
        "image": [3, 16, 16],
        "classes": ["dark", "bright"],
    }
    apis = {name: {"model": name} for name in (*hanging, "alive")}
    limits = {"retries": 1, "timeout": 60.0}
    (tmp_path / "apis.toml").write_text(tomli_w.dumps({"defaults": {**common, "limits": limits}, "apis": apis}))
    dfml.learn(tmp_path / "apis.toml", tmp_path / "run", settings=CHORUS, budget=1000, on_event=watch)
    assert len(in_time) >= len(hanging)
    assert all(in_time), "the API that answers had to wait for one that does not"
    assert {line["api"] for line in events_of(tmp_path / "run", "ApiFailed")} == set(hanging)


def test_a_server_that_dies_in_the_middle_takes_only_its_own_apis_along(tiny_zoo, tmp_path):
    manifest, names = tmp_path / "apis.toml", [api.spec.name for api in dfml.load_apis(tiny_zoo)]
    with serving(tiny_zoo) as lasting, serving(tiny_zoo, "--latency-ms", "50") as dying:
        write_remote(manifest, tiny_zoo, dying.url, protocol="huggingface", limits={"retries": 2})
        tables = tomllib.loads(manifest.read_text())
        tables["apis"][names[0]]["url"] = lasting.url
        manifest.write_text(tomli_w.dumps(tables))

        def strike() -> None:
            while min(dying.stats()["apis"][name]["answered"] for name in names[1:]) < 1:
                time.sleep(0.02)
            dying.process.kill()

        killer = threading.Thread(target=strike)
        killer.start()
        dfml.learn(manifest, tmp_path / "run", settings=CHORUS, budget=1000)
        killer.join()
        assert lasting.stats()["answered"] == counts(tmp_path / "run")[names[0]] == 64
    assert {line["api"] for line in events_of(tmp_path / "run", "ApiFailed")} == set(names[1:])
    spent = counts(tmp_path / "run")
    assert all(0 < spent[name] < 64 for name in names[1:]), "what was answered before is kept"


def test_no_answer_is_paid_for_again_after_kills(tmp_path):
    kill(tmp_path, 10)


@pytest.mark.slow
def test_no_answer_is_paid_for_again_after_five_hundred_kills(tmp_path):
    kill(tmp_path, 500)


def kill(folder: Path, times: int) -> None:
    done = subprocess.run([sys.executable, KILLING, folder, str(times)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
