"""`dfml learn` against servers of other people: what it learns over HTTP is what it learns locally, bit for bit.

The models are those of a zoo; each server keeps a diary of the images that it answers, to compare the ledger with.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import tomli_w
from environments import environment
from safetensors.torch import load_file

from dfml.apis.ledger import spending
from dfml.apis.manifest import read_manifest
from dfml.cli import main

pytestmark = pytest.mark.servers
HERE = Path(__file__).parent
SETTINGS = ("--set", "queries=60", "--set", "distil.steps=5", "--set", "net.width=4")
DEADLINE_S = 120


@pytest.fixture(scope="module")
def zoo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("zoo") / "zoo"
    size = ("--apis", "2", "--way", "3", "--width", "4", "--epochs", "1", "--images-per-class", "10")
    assert main(["zoo", "build", *size, "--out", str(folder)]) == 0
    assert main(["learn", str(folder), *SETTINGS, "--out", str(folder.parent / "local")]) == 0
    return folder


def bin_of(name: str) -> Path:
    try:
        return environment(name)
    except RuntimeError as error:
        pytest.skip(f"NO {name.upper()}: {error}")


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@contextmanager
def running(command: list[str], folder: Path, ready: str, **variables: str) -> Iterator[Path]:
    """The server of `command`, once `ready` answers; gives the diary of what it answered."""
    diary = folder / "diary"
    diary.touch()
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    variables |= {"DIARY": str(diary), "OMP_NUM_THREADS": "1"}
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=own | variables, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        deadline = time.monotonic() + DEADLINE_S
        while not answers(ready):
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < deadline, (folder / "log").read_text()
            time.sleep(0.2)
        yield diary
    finally:
        process.terminate()
        process.wait()
        with suppress(ProcessLookupError):  # workers that outlived it
            os.killpg(process.pid, signal.SIGKILL)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return bool(response.status == 200)
    except OSError:
        return False


def check(zoo: Path, manifest: Path, diary: Path) -> None:
    """Learn through `manifest` and compare: bits with the local run, the ledger with the diary."""
    run = manifest.parent / "run"
    assert main(["learn", str(manifest), *SETTINGS, "--budget", "1000", "--out", str(run)]) == 0
    local, remote = (load_file(folder / "init.safetensors") for folder in (zoo.parent / "local", run))
    assert local.keys() == remote.keys()
    assert all(local[key].numpy().tobytes() == remote[key].numpy().tobytes() for key in local)
    told = Counter[str]()
    for line in diary.read_text().splitlines():
        name, images = line.split()
        told[name] += int(images)
    assert told == {name: api["queries"] for name, api in spending(run)["apis"].items()} != {}


def test_mlserver(zoo, tmp_path):
    server, entries = bin_of("mlserver"), read_manifest(zoo).entries
    http, grpc, metrics = free_ports(3)
    settings = {"host": "127.0.0.1", "http_port": http, "grpc_port": grpc, "metrics_port": metrics}
    (tmp_path / "settings.json").write_text(json.dumps({**settings, "parallel_workers": 0}))
    shutil.copy(HERE / "mlserver_runtime.py", tmp_path)
    for name, entry in entries.items():
        (tmp_path / name).mkdir()
        model = {"name": name, "implementation": "mlserver_runtime.Onnx", "parameters": {"uri": str(zoo / entry.file)}}
        (tmp_path / name / "model-settings.json").write_text(json.dumps(model))
    url = f"http://127.0.0.1:{http}"
    with running([str(server / "mlserver"), "start", "."], tmp_path, f"{url}/v2/health/ready") as diary:
        # It lists its models and says nothing of their inputs, so the manifest does.
        apis = {name: {"model": name, "classes": list(entry.classes)} for name, entry in entries.items()}
        defaults = {"protocol": "inference_v2", "url": url, "image": [3, 32, 32]}
        manifest = tmp_path / "apis.toml"
        manifest.write_text(tomli_w.dumps({"defaults": defaults, "apis": apis}))
        check(zoo, manifest, diary)


def test_api_inference_community(zoo, tmp_path):
    server, entries = bin_of("huggingface"), read_manifest(zoo).entries
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    models = {name: {"file": str(zoo / entry.file), "classes": list(entry.classes)} for name, entry in entries.items()}
    shutil.copy(HERE / "huggingface_app.py", tmp_path)
    command = [str(server / "uvicorn"), "huggingface_app:app", "--port", str(port), "--log-level", "warning"]
    variables = {"MODELS": json.dumps(models), "TASK": "image-classification", "PYTHONPATH": str(tmp_path)}
    with running(command, tmp_path, f"{url}/", **variables) as diary:
        apis = {name: {"model": name, "classes": list(entry.classes)} for name, entry in entries.items()}
        defaults = {"protocol": "huggingface", "url": url, "image": [3, 32, 32]}
        manifest = tmp_path / "apis.toml"
        manifest.write_text(tomli_w.dumps({"defaults": defaults, "apis": apis}))
        check(zoo, manifest, diary)


def test_litserve(zoo, tmp_path):
    """The example of docs/endpoints.md."""
    server, entries = bin_of("litserve"), read_manifest(zoo).entries
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    models = {name: {"file": str(zoo / entry.file), "classes": list(entry.classes)} for name, entry in entries.items()}
    command = [str(server / "python"), str(HERE / "litserve_app.py")]
    with running(command, tmp_path, f"{url}/health", MODELS=json.dumps(models), PORT=str(port)) as diary:
        apis = {name: {"url": f"{url}/{name}", "classes": list(entry.classes)} for name, entry in entries.items()}
        defaults = {
            "protocol": "json",
            "image": [3, 32, 32],
            "input": {"field": "image", "encoding": "png"},
            "output": {"labels": "output.labels", "scores": "output.scores"},
        }
        manifest = tmp_path / "apis.toml"
        manifest.write_text(tomli_w.dumps({"defaults": defaults, "apis": apis}))
        check(zoo, manifest, diary)
