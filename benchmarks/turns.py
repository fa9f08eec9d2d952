"""Contenders in processes of their own that take turns, one step each, so that a busy machine is busy for all.

A benchmark lists them by name in `CONTENDERS`; `entered` starts one and returns what makes it do its next step.
"""

import argparse
import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch

from dfml.runtime import keep_freed_memory

Turn = Callable[[float], None]
"""called after every step with a value by which to see that all compute the same; returns when the next may begin"""
Contender = Callable[[int, Turn], None]
"""given the cores it may use and its `Turn`; it never ends by itself"""


class Step(NamedTuple):
    """What one step took and gave."""

    seconds: float
    processor_seconds: float
    value: float


@contextmanager
def entered(benchmark: str, name: str, *, cores: int, tuned: bool) -> Iterator[Callable[[], Step]]:
    """Contender `name` of benchmarks.`benchmark`, at its mark; `tuned` gives it dfml's allocator settings."""
    command = [sys.executable, "-m", "benchmarks.turns", benchmark, name, str(cores), *["--tuned"] * tuned]
    environment = os.environ | {"OMP_NUM_THREADS": str(cores)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        talk_in, talk_out = child.stdin, child.stdout

        def step() -> Step:
            talk_in.write("\n")
            talk_in.flush()
            return Step(*json.loads(talk_out.readline()))

        yield step
        talk_in.close()


def contend(contender: Contender, cores: int) -> None:
    """The life of one process: a line comes in, a step is made, what it took and gave goes out."""
    torch.set_num_threads(cores)
    start = work = 0.0

    def wait() -> None:
        nonlocal start, work
        if not sys.stdin.readline():
            sys.exit()
        start, work = time.perf_counter(), time.process_time()

    def turn(value: float) -> None:
        print(json.dumps(Step(time.perf_counter() - start, time.process_time() - work, value)), flush=True)
        wait()

    wait()
    contender(cores, turn)


def matmul_gflops(cores: int) -> float:
    """The rate of a large matrix product, best of a few: what arithmetic could come to."""
    torch.set_num_threads(cores)
    a = torch.rand(2048, 2048)
    seconds = []
    for _ in range(8):
        start = time.perf_counter()
        a @ a
        seconds.append(time.perf_counter() - start)
    return 2 * 2048**3 / min(seconds) / 1e9


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("benchmark")
    parser.add_argument("name")
    parser.add_argument("cores", type=int)
    parser.add_argument("--tuned", action="store_true")
    arguments = parser.parse_args()
    if arguments.tuned:
        keep_freed_memory()
    contenders = importlib.import_module(f"benchmarks.{arguments.benchmark}").CONTENDERS
    contend(contenders[arguments.name], arguments.cores)
