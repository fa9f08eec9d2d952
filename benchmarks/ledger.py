"""What the ledger adds to the time of a local Conv4, batches of 256 fresh images: `python -m benchmarks ledger`."""

import json
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from benchmarks.spread import in_turns, ratios, spread

from dfml.apis.blackbox import ApiSpec, BlackBox
from dfml.apis.ledger import Ledger, Metered
from dfml.apis.local.onnx import OnnxApi
from dfml.nets import NetSpec
from dfml.nets.export import export_onnx
from dfml.rng import stream
from dfml.runtime import keep_freed_memory

BATCH, ROUNDS, GOAL = 256, 40, 0.15


def conv4(folder: Path) -> OnnxApi:
    """A freshly initialised Conv4 behind onnxruntime, on one thread."""
    spec = ApiSpec(name="conv4", classes=("a", "b", "c", "d", "e"), image=(3, 32, 32))
    net = NetSpec(arch="conv4", way=5, size=32).build(rng=stream(0, "benchmark"))
    export_onnx(net, folder / "conv4.onnx", name=spec.name, classes=spec.classes, image=spec.image)
    return OnnxApi(folder / "conv4.onnx", spec, threads=1)


def run() -> dict[str, Any]:
    """Calls through the ledger and calls without, in turns, on different images each time."""
    torch.set_num_threads(1)
    keep_freed_memory()  # as dfml's commands do
    rng = stream(0, "images")

    def asking(api: BlackBox) -> Callable[[], Callable[[], object]]:
        return lambda: partial(api, torch.rand(BATCH, *api.spec.image, generator=rng))

    with tempfile.TemporaryDirectory() as folder:
        bare = conv4(Path(folder))
        with Ledger(Path(folder) / "ledger" / "conv4.sqlite", budget=10**9) as ledger:
            times = in_turns({"without": asking(bare), "through": asking(Metered(bare, ledger))}, rounds=ROUNDS)
            kept = ledger.queries
    more, longer = ratios(times["through"], times["without"])
    work = {name: 1e3 * spread([took.processor_seconds for took in times[name]]).median for name in times}
    return {
        "name": "ledger overhead",
        "ratio": round(more.median - 1, 3),
        "goal": GOAL,
        "met": more.median - 1 < GOAL and kept == (ROUNDS + 1) * BATCH,
        "rounds": ROUNDS,
        "processor time": more.rounded(3),
        "by the clock": longer.rounded(3),
        "processor milliseconds a batch": {
            "without": round(work["without"], 2),
            "through the ledger": round(work["through"], 2),
        },
        "line": f"The ledger adds {more.told('.0%', less=1)} to the processor time "
        f"of a local Conv4 in batches of {BATCH} (goal: under {GOAL:.0%})",
    }


if __name__ == "__main__":
    print(json.dumps(run(), indent=2))
