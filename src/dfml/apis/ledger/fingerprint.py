"""A short key for every image, the same on every machine: by it the ledger knows an image again."""

import hashlib
from functools import cache

import numpy as np
import torch
from torch import Tensor

from dfml.apis.blackbox import ApiSpec
from dfml.apis.degrade import to_grid

KEY_BYTES = 16
_BLOCK, _SUMS, _BITS, _TOGETHER = 4096, 8, 10, 32
_SCRATCH = 1 << 20  # bytes of working memory: more leaves the processor's cache, and large pieces split the heap


def fingerprints(spec: ApiSpec, images: Tensor) -> list[bytes]:
    """One key of 16 bytes for each of the images (n, c, h, w) that fit `spec`: equal keys mean equal images.

    What counts is what the API sees. Where images travel with a number of levels a pixel, the words w of an image are
    its levels; elsewhere the bit patterns of its floats. Each block of up to 4,096 words becomes 8 sums

        s_j = sum_i r_ij w_i,    r_ij fixed, as good as uniform in 0 .. 1023

    and the key is the BLAKE2 digest of all sums. Two different words leave at most one value of r_ij that hides the
    difference, so unequal blocks agree in all sums with a chance of at most 2^-80, unless somebody built them to.
    No sum passes 2^12 * 2^10 * 2^31 = 2^53, so float64 holds it exactly in whatever order a matrix product adds it up.

    The point is speed: SHA-256, even with the CPU's own instructions for it, takes about 1.5 times as long over floats.
    """
    weights, salt = _weights(), str(spec.levels).encode()
    pixels = images.detach().cpu().flatten(1).contiguous()
    count, size = pixels.shape
    sums = torch.empty(-(-size // _BLOCK), count, _SUMS, dtype=torch.float64)
    together = max(1, min(_TOGETHER, _SCRATCH // (8 * size)))
    scratch = torch.empty(together, size, dtype=torch.float64)  # once, and small enough to stay in the cache
    for at in range(0, count, together):
        part = pixels[at : at + together]
        words = scratch[: part.shape[0]]
        words.copy_(part.view(torch.int32) if spec.levels is None else to_grid(part, spec.levels))
        for block, start in enumerate(range(0, size, _BLOCK)):
            chosen = words[:, start : start + _BLOCK]
            torch.mm(chosen, weights[: chosen.shape[1]], out=sums[block, at : at + together])
    rows = (sums.transpose(0, 1) + 0.0).numpy().tobytes()  # one zero, not two: -0.0 has other bytes
    width = 8 * _SUMS * len(sums)
    return [
        hashlib.blake2s(rows[at : at + width], digest_size=KEY_BYTES, salt=salt).digest()
        for at in range(0, len(rows), width)
    ]


@cache
def _weights() -> Tensor:
    """The r_ij as float64 (4096, 8), from a hash function because random generators change between versions."""
    stream = hashlib.shake_128(b"dfml image keys").digest(2 * _BLOCK * _SUMS)
    words = np.frombuffer(stream, "<u2").reshape(_BLOCK, _SUMS) % 2**_BITS
    return torch.from_numpy(words.astype(np.float64))
