"""One second-order meta-step: ours against a plain loop over tasks with `higher` and with `torchopt`.

4 tasks of 5-way 5-shot with 15 queries a class, 32x32, Conv4-32, 5 inner steps at 0.01, Adam outside. Theirs run with
the allocator as it is and once more with ours (`dfml.runtime.keep_freed_memory`). Libraries that are not installed are
left out.
"""

import importlib.util
import json
from contextlib import ExitStack
from typing import Any

import torch
import torch.nn.functional as F
from benchmarks.spread import spread
from benchmarks.turns import Contender, Step, Turn, entered, matmul_gflops

from dfml.episode import Episode
from dfml.meta.adam import AdamState, adam
from dfml.meta.replay import meta_gradient
from dfml.nets import NetSpec
from dfml.nets.functional import MEAN, STD, Net
from dfml.rng import stream

GOAL = 2 / 3
TASKS, WAY, SHOT, QUERY, STEPS, LR, META_LR = 4, 5, 5, 15, 5, 0.01, 1e-3
SPEC = NetSpec(way=WAY)


def episodes() -> list[Episode]:
    def images(count: int, *name: str | int) -> torch.Tensor:
        return torch.rand(WAY * count, 3, SPEC.size, SPEC.size, generator=stream(0, *name))

    labels = torch.arange(WAY)
    few, many = labels.repeat_interleave(SHOT), labels.repeat_interleave(QUERY)
    return [Episode(images(SHOT, "s", i), few, images(QUERY, "q", i), many, tuple("abcde")) for i in range(TASKS)]


def ours(cores: int, turn: Turn) -> None:
    net, batch = Net(SPEC), episodes()
    params = net.init(stream(0))
    state = AdamState.fresh(params)

    while True:
        result = meta_gradient(net, params, batch, inner_lr=LR, inner_steps=STEPS, workers=cores)
        params, state = adam(params, result.grads, state, lr=META_LR)
        turn(result.loss)


def normalised_episodes() -> list[Episode]:
    return [e._replace(support=(e.support - MEAN) / STD, query=(e.query - MEAN) / STD) for e in episodes()]


def with_higher(cores: int, turn: Turn) -> None:
    import higher

    net, batch = SPEC.build(rng=stream(0), batch_norm="batch"), normalised_episodes()
    outer, inner = torch.optim.Adam(net.parameters(), lr=META_LR), torch.optim.SGD(net.parameters(), lr=LR)

    while True:
        outer.zero_grad()
        total = 0.0
        for task in batch:
            with higher.innerloop_ctx(net, inner, copy_initial_weights=False) as (fast, descent):
                for _ in range(STEPS):
                    descent.step(F.cross_entropy(fast(task.support), task.support_labels))
                loss = F.cross_entropy(fast(task.query), task.query_labels) / TASKS
                loss.backward()
                total += loss.item()
        outer.step()
        turn(total)


def with_torchopt(cores: int, turn: Turn) -> None:
    import torchopt

    net, batch = SPEC.build(rng=stream(0), batch_norm="batch"), normalised_episodes()
    outer, inner = torch.optim.Adam(net.parameters(), lr=META_LR), torchopt.MetaSGD(net, lr=LR)

    while True:
        outer.zero_grad()
        total = 0.0
        net_start = torchopt.extract_state_dict(net, by="reference", detach_buffers=True)
        inner_start = torchopt.extract_state_dict(inner, by="reference")
        for task in batch:
            for _ in range(STEPS):
                inner.step(F.cross_entropy(net(task.support), task.support_labels))
            loss = F.cross_entropy(net(task.query), task.query_labels) / TASKS
            loss.backward()
            total += loss.item()
            torchopt.recover_state_dict(net, net_start)
            torchopt.recover_state_dict(inner, inner_start)
        outer.step()
        turn(total)


CONTENDERS: dict[str, Contender] = {"ours": ours, "higher": with_higher, "torchopt": with_torchopt}


def gflop() -> float:
    """The arithmetic of the convolutions of one meta-step, in 10^9 multiplications and additions.

    A block forward is one convolution; its derivative two more (in the image and in the filter); the derivative of all
    three is two for each. The first block reads pixels, which need no derivative: 1, 1 and 2.
    """
    sides = [SPEC.size // 2**block for block in range(4)]
    inputs = [SPEC.channels, *[SPEC.width] * 3]
    first, *rest = (2 * 9 * i * SPEC.width * side**2 for i, side in zip(inputs, sides, strict=True))
    support = WAY * SHOT * STEPS * ((1 + 1 + 2) * first + (1 + 2 + 6) * sum(rest))
    query = WAY * QUERY * ((1 + 1) * first + (1 + 2) * sum(rest))
    return TASKS * (support + query) / 1e9


def run(*, rounds: int = 5, cores: int = 2) -> dict[str, Any]:
    """Seconds a step (medians) of everybody, the ratios, and the distance from the arithmetic limit."""
    libraries = [name for name in ("higher", "torchopt") if importlib.util.find_spec(name)]
    lineup = [("ours", n, True) for n in sorted({1, cores})]
    lineup += [(name, n, tuned) for name in libraries for n in sorted({1, cores}) for tuned in (False, True)]
    times: dict[tuple[str, int, bool], list[Step]] = {who: [] for who in lineup}
    with ExitStack() as stack:
        steps = {
            (name, n, tuned): stack.enter_context(entered("meta_step", name, cores=n, tuned=tuned))
            for name, n, tuned in lineup
        }
        losses = [step().value for step in steps.values()]  # the first step warms up; all start from the same weights
        if max(losses) - min(losses) > 1e-4:
            raise RuntimeError(f"the contenders do not compute the same thing: outer losses {losses}")
        for _ in range(rounds):
            for who, step in steps.items():
                times[who].append(step())
    clock = {who: spread([step.seconds for step in steps_made]) for who, steps_made in times.items()}
    work = {who: spread([step.processor_seconds for step in steps_made]) for who, steps_made in times.items()}
    seconds = {who: value.median for who, value in clock.items()}

    def ratio(n: int, tuned: bool) -> float | None:
        theirs = [seconds[name, n, tuned] for name in libraries]
        return round(seconds["ours", n, True] / min(theirs), 3) if theirs else None

    def label(who: tuple[str, int, bool]) -> str:
        return f"{who[0]}, {who[1]} core{'s' * (who[1] > 1)}" + ", tuned allocator" * (who[2] and who[0] != "ours")

    peak = matmul_gflops(cores)
    limit = gflop() / peak
    mine, best = seconds["ours", cores, True], ratio(cores, False)
    against = f"{best:.2f} of the faster of {' and '.join(libraries)}" if libraries else "nobody to compare with"
    return {
        "name": "meta-step",
        "goal": round(GOAL, 3),
        "ratio": best,
        "ratio_tuned_allocator": ratio(cores, True),
        "ratio_one_core": ratio(1, False),
        "ratio_one_core_tuned_allocator": ratio(1, True),
        "met": best is not None and best <= GOAL,
        "seconds": {label(who): round(value, 4) for who, value in seconds.items()},
        "quartiles": {label(who): [round(value.low, 4), round(value.high, 4)] for who, value in clock.items()},
        "processor_seconds": {label(who): value.rounded(4) for who, value in work.items()},
        "gflop": round(gflop(), 2),
        "matmul_peak_gflops": round(peak, 1),
        "limit_seconds": round(limit, 4),
        "times_the_limit": round(mine / limit, 2),
        "line": f"a meta-step of {TASKS} tasks takes {mine:.3f} s on {cores} cores: {against}; "
        f"{mine / limit:.1f} times the arithmetic of its convolutions at the speed of a matrix product",
    }


if __name__ == "__main__":
    print(json.dumps(run(), indent=2))
