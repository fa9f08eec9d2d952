"""Images per second and core of the procedural prior: `python benchmarks/prior.py`."""

import json
import time

import torch

from dfml.images.prior import CHUNK, DRAWN, Prior
from dfml.runtime import keep_freed_memory

GOAL, LARGE_GOAL = 2000, 300


def rate(size: int, channels: int, chunks: int = 4) -> float:
    """Images drawn per second of processor time."""
    prior = Prior(seed=0, size=size, channels=channels, kind="mixed")
    prior.chunk(0)  # the first one pays for memory and for torch's own start
    start = time.process_time()
    for index in range(1, chunks + 1):
        prior.chunk(index)
    return chunks * CHUNK / (time.process_time() - start)


def run() -> dict[str, object]:
    """The rate at the two sizes that goals are set for, and at two others."""
    keep_freed_memory()
    torch.set_num_threads(1)
    shapes = ((32, 3), (32, 1), (84, 3), (224, 3))
    rates = {f"{size}x{size}x{channels}": round(rate(size, channels)) for size, channels in shapes}
    small, large = rates["32x32x3"], rates["224x224x3"]
    return {
        "name": "procedural prior",
        "ratio": round(min(small / GOAL, large / LARGE_GOAL), 2),
        "goal": {"32x32x3": GOAL, "224x224x3": LARGE_GOAL},
        "met": small >= GOAL and large >= LARGE_GOAL,
        "images_per_second": rates,
        "line": f"the prior draws {small:,} images of 32x32 a second on one core (goal: {GOAL:,}), "
        f"{large:,} of 224x224, drawn at {DRAWN} pixels and enlarged (goal: {LARGE_GOAL})",
    }


if __name__ == "__main__":
    print(json.dumps(run(), indent=2))
