"""Queries a second through the whole stack against the bare onnxruntime session of the same Conv4, on one core.

The stack is what learning asks through: 8-bit pictures to floats, checks, image keys, ledger and budget, onnxruntime,
checks again, every answer on disk. The bare session gets floats that are ready, in the batch size that suits it best.
"""

import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from benchmarks.ledger import conv4

from dfml.apis.ledger import Ledger, Metered
from dfml.methods.chorus.asking import ask_all
from dfml.rng import stream
from dfml.runtime import keep_freed_memory

IMAGES, ROUNDS, GOAL = 4000, 9, 0.15
BATCHES = (32, 256)


def run() -> dict[str, Any]:
    """The median round of each, in turns, on different images each time."""
    import onnxruntime

    torch.set_num_threads(1)
    keep_freed_memory()  # as dfml's commands do
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    times: dict[str, list[float]] = {}

    def took(who: str, start: float) -> None:
        times.setdefault(who, []).append(time.perf_counter() - start)

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        api = conv4(folder)
        session = onnxruntime.InferenceSession(folder / "conv4.onnx", options)
        (entry,) = session.get_inputs()
        for turn in range(ROUNDS):
            pictures = torch.randint(
                256, (IMAGES, *api.spec.image), dtype=torch.uint8, generator=stream(turn, "pictures")
            )
            floats = pictures.float().div_(255).numpy()
            for size in BATCHES:
                start = time.perf_counter()
                for at in range(0, IMAGES, size):
                    session.run(None, {entry.name: floats[at : at + size]})
                took(f"bare session, batches of {size}", start)
            with Ledger(folder / f"{turn}.sqlite", budget=IMAGES) as ledger:
                start = time.perf_counter()
                ask_all([Metered(api, ledger)], pictures, counts=[IMAGES])
                took("whole stack", start)
                assert ledger.queries == IMAGES
    rates = {who: round(IMAGES / statistics.median(seconds)) for who, seconds in times.items()}
    whole = rates.pop("whole stack")
    ratio = max(rates.values()) / whole - 1
    return {
        "name": "whole stack",
        "ratio": round(ratio, 3),
        "goal": GOAL,
        "met": ratio <= GOAL,
        "images per second": {"whole stack": whole, **rates},
        "line": f"a query through the whole stack takes {ratio:.0%} longer than in the bare onnxruntime session "
        f"(goal: at most {GOAL:.0%})",
    }


if __name__ == "__main__":
    print(json.dumps(run(), indent=2))
