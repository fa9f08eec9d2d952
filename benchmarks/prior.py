"""Images per second and core of the procedural prior: `python benchmarks/prior.py`."""

import json
import time

import torch

from dfml.images.prior import CHUNK, Prior
from dfml.runtime import keep_freed_memory

GOAL = 2000


def rate(size: int, channels: int, chunks: int = 8) -> float:
    """Images drawn per second of processor time."""
    prior = Prior(seed=0, size=size, channels=channels)
    prior.chunk(0)  # the first one pays for memory and for torch's own start
    start = time.process_time()
    for index in range(1, chunks + 1):
        prior.chunk(index)
    return chunks * CHUNK / (time.process_time() - start)


def run() -> dict[str, object]:
    """The rate at the size that the goal is set for, and at two others."""
    keep_freed_memory()
    torch.set_num_threads(1)
    rates = {f"{size}x{size}x{channels}": round(rate(size, channels)) for size, channels in ((32, 3), (32, 1), (84, 3))}
    return {
        "name": "procedural prior",
        "ratio": round(rates["32x32x3"] / GOAL, 2),
        "goal": GOAL,
        "met": rates["32x32x3"] >= GOAL,
        "images_per_second": rates,
        "line": f"the prior draws {rates['32x32x3']:,} images of 32x32 a second on one core (goal: {GOAL:,})",
    }


if __name__ == "__main__":
    print(json.dumps(run(), indent=2))
