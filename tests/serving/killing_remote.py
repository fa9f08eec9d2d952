"""Runs of `learn` over HTTP that are killed in the middle; not a test itself, but what one runs.

`python killing_remote.py FOLDER KILLS` raises if an answer on file was ever asked for again, or a budget passed, and
prints what happened. Torch is imported once; the server and every run are forks.
"""

import json
import os
import random
import signal
import sqlite3
import sys
import threading
import time
import traceback
import urllib.request
from collections import Counter
from pathlib import Path

import numpy as np
import tomli_w
import torch

import dfml
from dfml.apis.blackbox import ApiSpec
from dfml.apis.ledger import ledger_path, spending
from dfml.apis.ledger.fingerprint import fingerprints
from dfml.apis.local.function import FunctionApi
from dfml.serving.hosted import Hosted, ServeConfig
from dfml.serving.http import Server

SPEC = ApiSpec(name="a", classes=("dark", "bright"), image=(3, 16, 16), levels=256)
NAMES = ("a", "b")
QUERIES = 120
REQUEST, AT_ONCE = 4, 4
SENT = 2 * AT_ONCE * REQUEST
"""images that were sent and are not on file yet, at most: of requests under way, and of answers in our hands"""
BUDGET = QUERIES * len(NAMES)
SETTINGS = (f"queries={QUERIES}", "distil.steps=3", "net.width=4")


def brightness(images: np.ndarray) -> np.ndarray:
    bright = images.mean((1, 2, 3))
    return np.stack([1 - bright, bright], 1)


def logging_api(name: str, diary: Path) -> FunctionApi:
    """An API with a diary of its own: it writes down the key of each image, before the answer leaves."""
    file = os.open(diary, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def respond(images: np.ndarray) -> np.ndarray:
        os.write(file, b"".join(fingerprints(SPEC, torch.from_numpy(images))))
        return brightness(images)

    return FunctionApi(respond, SPEC.with_changes(name=name))


def serve(folder: Path) -> tuple[str, int, int]:
    """Fork a server; its address, and two pipes: a byte into the first comes back when no request is under way."""
    asking, ask = os.pipe()
    tell, telling = os.pipe()
    if os.fork() == 0:
        os.close(ask)
        torch.set_num_threads(1)  # as in `fork`
        server = Server(
            Hosted([logging_api(name, folder / f"{name}.diary") for name in NAMES], ServeConfig(latency_s=0.004))
        )
        threading.Thread(target=server.serve_forever, daemon=True).start()
        alone = threading.active_count()
        os.write(telling, server.url.encode())
        while os.read(asking, 1):  # ends when the parent does
            while threading.active_count() > alone:
                time.sleep(0.001)
            os.write(telling, b".")
        os._exit(0)
    os.close(asking)
    return os.read(tell, 100).decode(), ask, tell


def fork(manifest: Path, run: Path) -> int:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            torch.set_num_threads(1)  # after a fork PyTorch renews its thread pool: not by two threads at once
            dfml.learn(manifest, run, settings=SETTINGS, budget=BUDGET, resume=True, forgive_doubt=True)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return child


def keys_of(data: bytes) -> list[bytes]:
    return [data[at : at + 16] for at in range(0, len(data), 16)]


def answered(folder: Path, name: str) -> list[bytes]:
    """The keys of the images that the server answered, in its own words."""
    return keys_of((folder / f"{name}.diary").read_bytes())


def journalled(run: Path, name: str) -> list[bytes]:
    """The keys of the answers on file, read without any code of the ledger."""
    path, found = ledger_path(run, name), list[bytes]()
    if not path.exists():
        return []
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    if db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'answers'").fetchone()[0]:
        for (keys,) in db.execute("SELECT keys FROM answers ORDER BY first"):
            found += keys_of(keys)
    db.close()
    return found


def main(folder: Path, kills: int) -> dict[str, int]:
    """What came of it, in numbers."""
    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    url, ask, tell = serve(folder)
    manifest = folder / "apis.toml"
    common = {"protocol": "inference_v2", "url": url, "image": list(SPEC.image), "classes": list(SPEC.classes)}
    limits = {"images_per_request": REQUEST, "concurrency": AT_ONCE}
    tables = {"defaults": {**common, "input": {"encoding": "uint8"}, "limits": limits}}
    manifest.write_text(tomli_w.dumps({**tables, "apis": {name: {"model": name} for name in NAMES}}))

    def quiet() -> None:
        # A connection of the dead may still wait to be accepted, and no thread knows of it. They are accepted in turn:
        # once the server has answered this one, it has begun with all before.
        with urllib.request.urlopen(f"{url}/v2/health/ready") as reply:
            assert reply.status == 200
        os.write(ask, b"?")
        assert os.read(tell, 1) == b"."

    # The same without a server, for comparison; it also loads all that the forks would otherwise load again.
    local = [FunctionApi(brightness, SPEC.with_changes(name=name)) for name in NAMES]
    whole = dfml.learn(local, folder / "local", settings=SETTINGS, budget=BUDGET)
    begun = time.monotonic()
    assert os.waitpid(fork(manifest, folder / "whole"), 0)[1] == 0
    lifetime = time.monotonic() - begun
    quiet()
    before = {name: len(answered(folder, name)) for name in NAMES}
    assert set(before.values()) == {QUERIES}

    start = dict(before)  # answers that the server had given when the present run began
    doubt = dict.fromkeys(NAMES, 0)
    draw, killed, finished, number, lost = random.Random(0), 0, 0, 0, 0
    while killed < kills or not finished:
        run = folder / f"run-{number}"
        kept = {name: journalled(run, name) for name in NAMES}
        child = fork(manifest, run)
        if killed < kills:
            time.sleep(draw.uniform(0, lifetime))
            os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        assert status in (0, signal.SIGKILL), f"a run that went on ended with {status}"
        quiet()
        for name in NAMES:
            diary = answered(folder, name)
            new = diary[before[name] :]
            assert not set(new) & set(kept[name]), "an answer on file was asked for again"
            assert max(Counter(new).values(), default=1) == 1, "an image was asked for twice in one life"
            now = journalled(run, name)
            assert len(set(now)) == len(now), "an answer is on file twice"
            assert now[: len(kept[name])] == kept[name], "an answer on file has changed its place"
            assert set(now) <= set(diary[start[name] :]), "an answer is on file that nobody gave"
            in_doubt = spending(run)["apis"].get(name, {"in_doubt": 0})["in_doubt"] if (run / "ledger").is_dir() else 0
            assert 0 <= len(diary) - start[name] - len(now) <= in_doubt, "answers were lost that are not in doubt"
            assert in_doubt - doubt[name] <= SENT, "more is in doubt than was sent"
            doubt[name] = in_doubt
            before[name] = len(diary)
        assert sum(len(journalled(run, name)) for name in NAMES) <= BUDGET, "the budget was passed"
        if status == 0:
            finished, number = finished + 1, number + 1
            learned = dfml.Initialisation.load(run / "init.safetensors").params
            assert all(torch.equal(learned[key], whole.params[key]) for key in whole.params), "kills changed a bit"
            assert all(len(journalled(run, name)) == QUERIES for name in NAMES)
            lost += sum(before[name] - start[name] - QUERIES for name in NAMES)
            start, doubt = dict(before), dict.fromkeys(NAMES, 0)
        else:
            killed += 1
    return {"kills": killed, "runs finished": finished, "answers lost in flight and asked for again": lost}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2])), indent=1))
