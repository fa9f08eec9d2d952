"""What the ledger adds to the time of a local Conv4, batches of 256 fresh images: `python benchmarks/ledger.py`."""

import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from dfml.apis.blackbox import ApiSpec, BlackBox
from dfml.apis.ledger import Ledger, Metered
from dfml.apis.local.onnx import OnnxApi
from dfml.nets import NetSpec
from dfml.nets.export import export_onnx
from dfml.rng import stream
from dfml.runtime import keep_freed_memory

BATCH, ROUNDS, GOAL = 256, 100, 0.15


def conv4(folder: Path) -> OnnxApi:
    """A freshly initialised Conv4 behind onnxruntime, on one thread."""
    spec = ApiSpec(name="conv4", classes=("a", "b", "c", "d", "e"), image=(3, 32, 32))
    net = NetSpec(arch="conv4", way=5, size=32).build(rng=stream(0, "benchmark"))
    export_onnx(net, folder / "conv4.onnx", name=spec.name, classes=spec.classes, image=spec.image)
    return OnnxApi(folder / "conv4.onnx", spec, threads=1)


def seconds(api: BlackBox, images: torch.Tensor) -> float:
    """The time of one call."""
    start = time.perf_counter()
    api(images)
    return time.perf_counter() - start


def run() -> dict[str, Any]:
    """The median call through the ledger against the median call without, in turns, on different images each time."""
    torch.set_num_threads(1)
    keep_freed_memory()  # as dfml's commands do
    rng = stream(0, "images")
    with tempfile.TemporaryDirectory() as folder:
        bare = conv4(Path(folder))
        with Ledger(Path(folder) / "ledger" / "conv4.sqlite", budget=10**9) as ledger:
            metered = Metered(bare, ledger)
            times = []
            for turn in range(ROUNDS):
                fresh, other = torch.rand(2, BATCH, 3, 32, 32, generator=rng)
                if turn % 2:  # whoever comes second finds warmer caches
                    times.append((seconds(bare, fresh), seconds(metered, other)))
                else:
                    times.append((seconds(metered, fresh), seconds(bare, other))[::-1])
            kept = ledger.queries
    without, through = (statistics.median(side) for side in zip(*times, strict=True))
    ratio = through / without - 1
    return {
        "name": "ledger overhead",
        "ratio": round(ratio, 3),
        "goal": GOAL,
        "met": ratio < GOAL and kept == ROUNDS * BATCH,
        "milliseconds a batch": {"without": round(1e3 * without, 2), "through the ledger": round(1e3 * through, 2)},
        "line": f"The ledger adds {ratio:.0%} to the time of a local Conv4 in batches of {BATCH} "
        f"(goal: under {GOAL:.0%})",
    }


if __name__ == "__main__":
    print(json.dumps(run(), indent=2))
