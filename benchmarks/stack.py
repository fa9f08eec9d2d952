"""Queries through the whole stack against the bare onnxruntime session of the same Conv4, on one core.

The stack is what learning asks through: 8-bit pictures to floats, checks, image keys, ledger and budget, onnxruntime,
checks again, every answer on disk. The bare session gets floats that are ready, in the batch size that suits it best.
"""

import json
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import torch
from benchmarks.ledger import conv4
from benchmarks.spread import in_turns, ratios, spread

from dfml.apis.ledger import Ledger, Metered
from dfml.methods.chorus.asking import ask_all
from dfml.rng import stream
from dfml.runtime import keep_freed_memory

IMAGES, ROUNDS, GOAL = 4000, 9, 0.15
BATCHES = (32, 256)


def run() -> dict[str, Any]:
    """All contenders in turns, on different images each time."""
    import onnxruntime

    torch.set_num_threads(1)
    keep_freed_memory()  # as dfml's commands do
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    rng = stream(0, "pictures")

    with tempfile.TemporaryDirectory() as name, ExitStack() as books:
        folder = Path(name)
        api = conv4(folder)
        session = onnxruntime.InferenceSession(folder / "conv4.onnx", options)
        (entry,) = session.get_inputs()

        def pictures() -> torch.Tensor:
            return torch.randint(256, (IMAGES, *api.spec.image), dtype=torch.uint8, generator=rng)

        def bare(size: int) -> Callable[[], object]:
            floats = pictures().float().div_(255).numpy()
            parts = [floats[at : at + size] for at in range(0, IMAGES, size)]
            return lambda: [session.run(None, {entry.name: part}) for part in parts]

        def whole() -> Callable[[], object]:
            file = tempfile.mktemp(".sqlite", dir=folder)
            metered = Metered(api, books.enter_context(Ledger(file, budget=IMAGES)))
            return partial(ask_all, [metered], pictures(), rows=[torch.arange(IMAGES)])

        sessions = {f"bare session, batches of {size}": partial(bare, size) for size in BATCHES}
        times = in_turns({"whole stack": whole, **sessions}, rounds=ROUNDS)
    work = {who: spread([took.processor_seconds for took in rounds]).median for who, rounds in times.items()}
    more, longer = ratios(times["whole stack"], times[min(sessions, key=lambda who: work[who])])
    return {
        "name": "whole stack",
        "ratio": round(more.median - 1, 3),
        "goal": GOAL,
        "met": more.median - 1 <= GOAL,
        "rounds": ROUNDS,
        "processor time": more.rounded(3),
        "by the clock": longer.rounded(3),
        "processor microseconds an image": {who: round(1e6 * seconds / IMAGES, 1) for who, seconds in work.items()},
        "line": f"a query through the whole stack takes {more.told('.0%', less=1)} "
        f"more processor time than in the bare onnxruntime session (goal: at most {GOAL:.0%})",
    }


if __name__ == "__main__":
    print(json.dumps(run(), indent=2))
