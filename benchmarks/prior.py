"""Images per second and core of the procedural prior: `python benchmarks/prior.py`."""

import time

import torch

from dfml.images.prior import CHUNK, Prior
from dfml.runtime import keep_freed_memory


def rate(size: int, channels: int, chunks: int = 8) -> float:
    """Images drawn per second of processor time."""
    prior = Prior(seed=0, size=size, channels=channels)
    prior.chunk(0)  # the first one pays for memory and for torch's own start
    start = time.process_time()
    for index in range(1, chunks + 1):
        prior.chunk(index)
    return chunks * CHUNK / (time.process_time() - start)


if __name__ == "__main__":
    keep_freed_memory()
    torch.set_num_threads(1)
    for size, channels in ((32, 3), (32, 1), (84, 3)):
        print(f"{size}x{size}x{channels}: {rate(size, channels):,.0f} images/s on one core")
