"""One update of chorus's student: on all cores against on one, and what more APIs make of it.

Conv4-32, 128 images of 32 x 32, 100 APIs of 5 classes. *whole* is a batch in one piece on one core, *in parts* the same
in two parts that two cores share; all take turns. What two processes that share nothing gain over one shows what the
machine's second core is worth beside its first. Then 100, 1,000 and 10,000 APIs for a student of 8 filters on 16 x 16
pixels, as in `growth`: processor time of an update that hears at most 256 of them, and of one that hears all.
"""

import json
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import torch
from benchmarks.turns import Contender, Turn, entered

from dfml.methods.chorus.asking import AnswerTable
from dfml.methods.chorus.student import ChorusDistilConfig, ChorusStudent
from dfml.methods.chorus.vocabulary import Vocabulary
from dfml.nets import NetSpec
from dfml.nets.functional import Net
from dfml.rng import stream
from dfml.runtime import Map, single_cores

GOAL = 1.8
CORES, ROUNDS = 2, 15
TOGETHER = 5
"""updates a turn: learning makes thousands in a row, and the first after a rest finds its cores asleep"""
USUAL = ChorusDistilConfig(steps=10_000, optimiser="muon")
APIS, UPDATES = (100, 1_000, 10_000), 7


def student(apis: int, spec: NetSpec, config: ChorusDistilConfig, *, side_by_side: Map = map) -> ChorusStudent:
    images = torch.randint(256, (250, 3, spec.size, spec.size), generator=stream(0, "images"), dtype=torch.uint8)
    probs = torch.rand(250, apis, 5, generator=stream(0, "answers")).mul_(5).softmax(-1)
    answers = AnswerTable(images, probs, torch.ones(250, apis, dtype=torch.bool), torch.full((apis,), 5))
    net = Net(spec)
    return ChorusStudent(
        net,
        net.init(stream(0)),
        answers,
        config,
        vocabulary=Vocabulary.apart([5] * apis),
        rng=stream(1),
        side_by_side=side_by_side,
    )


def learning(config: ChorusDistilConfig, cores: int, turn: Turn) -> None:
    with single_cores(cores) as side_by_side:
        taught = student(100, NetSpec(), config, side_by_side=side_by_side)
        while True:
            turn(sum(taught.advance() for _ in range(TOGETHER)))


CONTENDERS: dict[str, Contender] = {
    "whole": lambda cores, turn: learning(replace(USUAL, parts=1), cores, turn),
    "in parts": lambda cores, turn: learning(USUAL, cores, turn),
}


def by_cores() -> dict[str, dict[str, float]]:
    """Seconds and processor seconds of an update, medians and the best."""
    lineup = [("whole", 1), ("in parts", 1), ("in parts", CORES)]
    with ExitStack() as stack:
        steps = {who: stack.enter_context(entered("distilling", who[0], cores=who[1], tuned=True)) for who in lineup}
        taken: dict[tuple[str, int], list[Any]] = {who: [] for who in lineup}
        for _ in range(ROUNDS):
            for who, step in steps.items():
                taken[who].append(step())
    alone, shared = ([step.value for step in taken["in parts", cores]] for cores in (1, CORES))
    if alone != shared:
        raise RuntimeError("the number of cores changes what is learned")
    return {
        f"{name}, {cores} core{'s' * (cores > 1)}": {
            "seconds": round(statistics.median(step.seconds for step in found[2:]) / TOGETHER, 4),
            "best": round(min(step.seconds for step in found[2:]) / TOGETHER, 4),
            "processor": round(statistics.median(step.processor_seconds for step in found[2:]) / TOGETHER, 4),
        }
        for (name, cores), found in taken.items()
    }


def second_core() -> float:
    """How many times the updates of one process two do that share nothing, on a core each."""
    alone, together = list[float](), list[float]()
    with ExitStack() as stack, ThreadPoolExecutor(CORES) as pool:
        steps = [stack.enter_context(entered("distilling", "in parts", cores=1, tuned=True)) for _ in range(CORES)]
        for _ in range(ROUNDS):
            alone.append(steps[0]().seconds)
            together += [step.seconds for step in pool.map(lambda step: step(), steps)]
    return round(CORES * statistics.median(alone[2:]) / statistics.median(together[2 * CORES :]), 2)


def serial() -> float:
    """Processor seconds of an update that only one core can do: those of the thread that shares out the rest."""
    seconds = []
    with single_cores(CORES) as side_by_side:
        taught = student(100, NetSpec(), USUAL, side_by_side=side_by_side)
        for _ in range(ROUNDS):
            begun = time.thread_time()
            taught.advance()
            seconds.append(time.thread_time() - begun)
    return round(statistics.median(seconds[2:]), 4)


def by_apis() -> list[dict[str, float]]:
    """Processor seconds of an update, medians."""
    rows, spec = [], NetSpec(width=8, size=16)
    with single_cores(1):
        for apis in APIS:
            taken = {}
            for name, heard in (("of 256", 256), ("of all", apis)):
                taught, seconds = student(apis, spec, replace(USUAL, heard=heard)), []
                for _ in range(UPDATES):
                    begun = time.process_time()
                    taught.advance()
                    seconds.append(time.process_time() - begun)
                taken[name] = round(statistics.median(seconds[1:]), 4)
            rows.append({"apis": apis, **taken})
    return rows


def run() -> dict[str, Any]:
    """Both, how many times as fast all cores are as one, and could be by the processor time alone."""
    cores, apis, alone, apart = by_cores(), by_apis(), serial(), second_core()
    whole, parts = cores["whole, 1 core"], cores[f"in parts, {CORES} cores"]
    ratio = whole["seconds"] / parts["seconds"]
    possible = whole["processor"] / (alone + (parts["processor"] - alone) / CORES)
    return {
        "name": "distilling",
        "ratio": round(ratio, 2),
        "goal": GOAL,
        "met": ratio >= GOAL,
        "best": round(whole["best"] / parts["best"], 2),
        "by processor time": round(possible, 2),
        "two processes": apart,
        "serial": alone,
        "by cores": cores,
        "by apis": apis,
        "line": f"an update of chorus on {CORES} cores is {ratio:.2f} times as fast as on one, by processor time "
        f"{possible:.2f} times (goal: {GOAL} times; {CORES} processes that share nothing do {apart:.2f} times as much "
        f"as one), to the same bits; hearing 256 of {APIS[-1]:,} APIs takes "
        f"{apis[-1]['of 256'] / apis[0]['of 256']:.1f} times the processor time of hearing {APIS[0]}, hearing all "
        f"{apis[-1]['of all'] / apis[0]['of all']:.0f} times",
    }


if __name__ == "__main__":
    print(json.dumps(run(), indent=2))
