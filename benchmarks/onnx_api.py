"""OnnxApi against ModuleApi, the same Conv4, one thread, side by side: `python -m benchmarks onnx_api`."""

import json
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import torch
from benchmarks.spread import Spread, in_turns, ratios, spread

from dfml.apis.blackbox import ApiSpec, BlackBox
from dfml.apis.local.module import ModuleApi
from dfml.apis.local.onnx import OnnxApi
from dfml.nets import NetSpec
from dfml.nets.export import export_onnx
from dfml.rng import stream
from dfml.runtime import keep_freed_memory

BATCH, ROUNDS, GOAL = 256, 20, 4.0


def both(folder: Path) -> tuple[ModuleApi, OnnxApi]:
    """One freshly initialised Conv4 behind the two backends."""
    spec = ApiSpec(name="conv4", classes=("a", "b", "c", "d", "e"), image=(3, 32, 32))
    net = NetSpec(arch="conv4", way=5, size=32).build(rng=stream(0, "benchmark"))
    mean, std = (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)
    export_onnx(net, folder / "conv4.onnx", name=spec.name, classes=spec.classes, image=spec.image, mean=mean, std=std)
    return ModuleApi(net, spec, mean=mean, std=std), OnnxApi(folder / "conv4.onnx", spec, threads=1)


def compare(eager: BlackBox, onnx: BlackBox) -> tuple[float, float, Spread]:
    """Images per second of processor time of both, asked in turns, by the median call, and how often the one is the
    other."""
    images = torch.rand(BATCH, 3, 32, 32, generator=stream(1))
    times = in_turns({"eager": lambda: partial(eager, images), "onnx": lambda: partial(onnx, images)}, rounds=ROUNDS)
    slow, fast = (BATCH / spread([took.processor_seconds for took in rounds]).median for rounds in times.values())
    return slow, fast, ratios(times["eager"], times["onnx"])[0]


def run() -> dict[str, Any]:
    """The ratio with glibc as it is and with the allocator that dfml's commands set; the smaller one counts."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        eager, onnx = both(Path(folder))
        probe = torch.rand(1024, 3, 32, 32, generator=stream(2))
        difference = (eager(probe) - onnx(probe)).abs().max().item()
        plain = compare(eager, onnx)
        keep_freed_memory()
        tuned = compare(eager, onnx)
    found = {"plain": plain[2], "tuned allocator": tuned[2]}
    ratio = min(one.median for one in found.values())
    return {
        "name": "OnnxApi against ModuleApi",
        "ratio": round(ratio, 2),
        "goal": GOAL,
        "met": ratio >= GOAL and difference < 1e-5,
        "ratios": {name: one.rounded(2) for name, one in found.items()},
        "images per processor second": {
            "eager": round(plain[0]),
            "eager, tuned allocator": round(tuned[0]),
            "onnx": round(plain[1]),
            "onnx, tuned allocator": round(tuned[1]),
        },
        "largest difference": difference,
        "line": f"OnnxApi answers {ratio:.1f} times as many images a second of processor time as eager torch "
        f"(goal: {GOAL:.0f} times), with answers that differ by at most {difference:.1g}",
    }


if __name__ == "__main__":
    print(json.dumps(run(), indent=2))
