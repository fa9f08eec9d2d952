"""OnnxApi against ModuleApi, the same Conv4, one thread, side by side: `python benchmarks/onnx_api.py`."""

import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

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


def seconds(api: BlackBox, images: torch.Tensor) -> float:
    """The time of one call."""
    start = time.perf_counter()
    api(images)
    return time.perf_counter() - start


def compare(eager: BlackBox, onnx: BlackBox) -> tuple[float, float]:
    """Images per second of both, asked in turns, by the median call."""
    images = torch.rand(BATCH, 3, 32, 32, generator=stream(1))
    for api in (eager, onnx):
        api(images)  # the first call opens and allocates
    times = [(seconds(eager, images), seconds(onnx, images)) for _ in range(ROUNDS)]
    slow, fast = (BATCH / statistics.median(side) for side in zip(*times, strict=True))
    return slow, fast


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
    ratios = {"plain": plain[1] / plain[0], "tuned allocator": tuned[1] / tuned[0]}
    ratio = min(ratios.values())
    return {
        "name": "OnnxApi against ModuleApi",
        "ratio": round(ratio, 2),
        "goal": GOAL,
        "met": ratio >= GOAL and difference < 1e-5,
        "ratios": {name: round(value, 2) for name, value in ratios.items()},
        "images per second": {
            "eager": round(plain[0]),
            "eager, tuned allocator": round(tuned[0]),
            "onnx": round(plain[1]),
            "onnx, tuned allocator": round(tuned[1]),
        },
        "largest difference": difference,
        "line": f"OnnxApi answers {ratio:.1f} times as many images a second as eager torch "
        f"(goal: {GOAL:.0f} times), with answers that differ by at most {difference:.1g}",
    }


if __name__ == "__main__":
    print(json.dumps(run(), indent=2))
