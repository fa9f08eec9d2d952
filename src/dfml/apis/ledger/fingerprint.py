"""A short key for every image, the same on every machine: by it the ledger knows an image again."""

import hashlib
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dfml.apis.blackbox import ApiSpec
from dfml.apis.degrade import to_grid

KEY_BYTES = 16
_BLOCK, _SUMS, _BITS, _TOGETHER = 4096, 8, 10, 32
_ROWS = 8  # multiplied at once
_SCRATCH = 1 << 20  # bytes of working memory: more leaves the processor's cache, and large pieces split the heap


def fingerprints(spec: ApiSpec, images: Tensor) -> list[bytes]:
    """One key of 16 bytes for each of the images (n, c, h, w) that fit `spec`: equal keys mean equal images.

    What counts is what the API sees. Where images travel with a number of levels a pixel, the words w of an image are
    its levels; elsewhere the bit patterns of its floats. Each block of up to 4,096 words becomes 8 sums

        s_j = sum_i r_ij w_i,    r_ij fixed, as good as uniform in 0 .. 1023

    and the key is the BLAKE2 digest of all sums. Two different words leave at most one value of r_ij that hides the
    difference, so unequal blocks agree in all sums with a chance of at most 2^-80, unless somebody built them to.
    No sum passes 2^12 * 2^10 * 2^31 = 2^53, so float64 holds it exactly in whatever order a matrix product adds it up.

    The point is speed: SHA-256, even with the CPU's own instructions for it, takes two to three times as long over
    floats.
    """
    weights, pixels = _weights(), images.detach().cpu().flatten(1).contiguous()
    count, size = pixels.shape
    whole = size // _BLOCK
    end = whole * _BLOCK
    blocks, rests = np.empty((count, whole, _SUMS)), np.empty((count, 1 if size > end else 0, _SUMS))
    together = max(1, min(_TOGETHER, _SCRATCH // (8 * size)))
    scratch = np.empty((together, size))  # once, and small enough to stay in the cache
    for at in range(0, count, together):
        part = pixels[at : at + together]
        words = scratch[: len(part)]
        words[:] = (part.view(torch.int32) if spec.levels is None else to_grid(part, spec.levels)).numpy()
        for row in range(len(part) if whole else 0):
            _multiply(words[row, :end].reshape(whole, _BLOCK), weights, out=blocks[at + row])
        if size > end:
            _multiply(words[:, end:], weights[: size - end], out=rests[at : at + together, 0])
    sums = np.concatenate([blocks, rests], axis=1) + 0.0  # one zero, not two: -0.0 has other bytes
    return _digests(sums.tobytes(), count, salt=str(spec.levels).encode())


def _multiply(words: NDArray[np.float64], weights: NDArray[np.float64], *, out: NDArray[np.float64]) -> None:
    """`words @ weights`, a few rows at a time: products of more numbers are shared by threads, which then wait for each
    other, on a busy machine for longer than it takes. (NumPy's is several times as fast as torch's on some processors.)
    """
    for row in range(0, len(words), _ROWS):
        np.dot(words[row : row + _ROWS], weights, out=out[row : row + _ROWS])


def _digests(content: bytes, count: int, *, salt: bytes) -> list[bytes]:
    """The digests of `count` pieces of equal length."""
    width, empty = len(content) // max(1, count), hashlib.blake2s(digest_size=KEY_BYTES, salt=salt)
    digests = []
    for at in range(0, len(content), max(1, width)):
        digest = empty.copy()  # making a new one takes longer than the digest
        digest.update(content[at : at + width])
        digests.append(digest.digest())
    return digests


@cache
def _weights() -> NDArray[np.float64]:
    """The r_ij (4096, 8), from a hash function because random generators change between versions."""
    stream = hashlib.shake_128(b"dfml image keys").digest(2 * _BLOCK * _SUMS)
    words = np.frombuffer(stream, "<u2").reshape(_BLOCK, _SUMS) % 2**_BITS
    weights: NDArray[np.float64] = words.astype(np.float64)
    return weights
