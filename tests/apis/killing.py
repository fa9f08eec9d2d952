"""Children that query through a ledger and are killed in the middle of it; not a test itself, but what one runs.

`python killing.py FOLDER KILLS` raises if any ledger is ever wrong, and prints what happened. Torch is imported once;
every child is a fork.
"""

import json
import os
import random
import signal
import sqlite3
import struct
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch

from dfml.apis.blackbox import ApiSpec
from dfml.apis.ledger import Ledger, Metered
from dfml.apis.ledger.fingerprint import fingerprints
from dfml.apis.local.function import FunctionApi
from dfml.apis.remote.limits import Limits
from dfml.errors import BudgetExceeded

SPEC = ApiSpec(name="victim", classes=("a", "b", "c"), image=(1, 2, 2))
IMAGES = 3000
CALL = 8
"""images that are on the wire at once"""


def pictures(numbers: list[int]) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.float32).view(-1, 1, 1, 1).expand(-1, 1, 2, 2) / 2**20


def logging_api(log: Path) -> FunctionApi:
    """An API with a diary of its own: it writes down each image that it answers, before the answer leaves."""
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def respond(images: np.ndarray) -> np.ndarray:
        numbers = np.round(images[:, 0, 0, 0] * 2**20).astype(np.int64)
        os.write(file, struct.pack(f"<{len(numbers)}I", *numbers.tolist()))
        return np.eye(3)[numbers % 3]

    return FunctionApi(respond, SPEC, limits=Limits(images_per_request=CALL))


def answered(log: Path) -> list[int]:
    data = log.read_bytes() if log.exists() else b""
    return list(struct.unpack(f"<{len(data) // 4}I", data))


def live(path: Path, log: Path, begun: int, *, seed: int, budget: int, threads: int, calls: int) -> None:
    """Ask for random images, many of them known, until somebody kills us, or `calls` times in every thread.

    Every thread puts a byte into the pipe `begun` after its first call.
    """
    torch.set_num_threads(1)
    ledger = Ledger(path, budget=budget, forgive_doubt=seed % 2 == 0)
    api = Metered(logging_api(log), ledger)

    def work(thread: int) -> None:
        draw = random.Random(f"{seed} {thread}")
        for number in range(calls):
            with suppress(BudgetExceeded):
                api(pictures([draw.randrange(IMAGES) for _ in range(draw.randint(1, 40))]))
            if number == 0:
                os.write(begun, b".")

    others = [threading.Thread(target=work, args=(thread,)) for thread in range(1, threads)]
    for other in others:
        other.start()
    work(0)
    for other in others:
        other.join()
    ledger.close()


def fork(path: Path, log: Path, begun: int, *, seed: int, budget: int, threads: int, calls: int) -> int:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            torch.set_num_threads(1)  # after a fork PyTorch renews its thread pool: not by two threads at once
            live(path, log, begun, seed=seed, budget=budget, threads=threads, calls=calls)
            status = 0
        finally:
            os._exit(status)
    return child


def journalled(path: Path, numbers: dict[bytes, int]) -> list[int]:
    """The images whose answers are on file, read without any code of the ledger, answers checked."""
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    found = []
    if db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        for keys, probs in db.execute("SELECT keys, probs FROM answers ORDER BY first"):
            row = [numbers[keys[at : at + 16]] for at in range(0, len(keys), 16)]
            assert np.array_equal(np.frombuffer(probs, "<f4").reshape(-1, 3), np.eye(3)[np.array(row) % 3])
            found += row
    db.close()
    return found


def main(folder: Path, kills: int) -> dict[str, int]:
    """What came of it, in numbers."""
    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(0)
    numbers = dict(zip(fingerprints(SPEC, pictures(list(range(IMAGES)))), range(IMAGES), strict=True))
    asked = unkept = 0
    for kill in range(kills):
        if kill % 10 == 0:  # a fresh ledger, because being born is dangerous, too
            path, log = folder / f"{kill}.sqlite", folder / f"{kill}.log"
            budget = draw.choice([200, 1000, 10**6])
            kept: list[int] = []
            doubt = 0
        before, threads = answered(log), draw.choice([1, 3])
        reading, writing = os.pipe()
        child = fork(path, log, writing, seed=kill, budget=budget, threads=threads, calls=10**9)
        os.close(writing)
        if kill % 2:  # on a busy machine some would die before their first question
            os.read(reading, 1)
        time.sleep(draw.uniform(0, 0.06))
        os.kill(child, signal.SIGKILL)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL, "the child ended by itself"
        os.close(reading)

        diary = answered(log)
        new = diary[len(before) :]
        assert not set(new) & set(kept), "an answer on file was paid for again"
        assert max(Counter(new).values(), default=1) == 1, "an image was paid for twice in one life"
        kept = journalled(path, numbers)
        assert len(set(kept)) == len(kept), "an answer is on file twice"
        assert set(kept) <= set(diary), "an answer is on file that nobody gave"
        assert len(kept) <= budget, "the budget was passed"
        with Ledger(path, budget=budget) as ledger:
            assert ledger.queries == len(kept)
            assert ledger.remaining == max(0, budget - len(kept) - ledger.in_doubt)
            assert 0 <= len(diary) - len(kept) <= ledger.in_doubt, "answers were lost that are not in doubt"
            assert ledger.in_doubt - doubt <= threads * CALL, "more is in doubt than was on the wire"
            doubt = ledger.in_doubt
        with Ledger(path, budget=budget, forgive_doubt=True) as ledger:
            assert ledger.remaining == budget - len(kept)
        asked, unkept = asked + len(new), unkept + len(set(new) - set(kept))
    assert asked > kills, "the children hardly lived; nothing was tested"

    # Two processes at once: each may pay for what the other is just asking, but nothing breaks and everything counts.
    path, log = folder / "both.sqlite", folder / "both.log"
    reading, writing = os.pipe()
    children = [fork(path, log, writing, seed=seed, budget=500, threads=2, calls=60) for seed in (1, 2)]
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
    os.close(reading)
    os.close(writing)
    kept = journalled(path, numbers)
    assert sorted(kept) == sorted(answered(log))
    assert len(kept) <= 500
    with Ledger(path, budget=500) as ledger:
        assert (ledger.queries, ledger.in_doubt) == (len(kept), 0)
    assert {file.suffix[:7] for file in folder.iterdir()} == {".sqlite", ".log"}, "the dead left something behind"

    return {"kills": kills, "images answered": asked, "answers lost in flight": unkept}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2])), indent=1))
