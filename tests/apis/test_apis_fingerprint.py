"""Keys of images: equal for equal images, on every machine, and for no others."""

import hashlib
import struct

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from dfml.apis.blackbox import ApiSpec
from dfml.apis.ledger.fingerprint import fingerprints


def spec(shape: tuple[int, int, int], levels: int | None = None) -> ApiSpec:
    return ApiSpec(name="any", classes=("a", "b"), image=shape, levels=levels)


def in_whole_numbers(image: np.ndarray, levels: int | None) -> bytes:
    """The definition of a key, in Python's integers of any length."""
    if levels is None:
        words = [int.from_bytes(struct.pack("<f", value), "little", signed=True) for value in image.ravel()]
    else:
        words = [int(np.round(np.float32(value) * np.float32(levels - 1))) for value in image.ravel()]
    stream = hashlib.shake_128(b"dfml image keys").digest(2 * 4096 * 8)
    weight = [value % 1024 for value in struct.unpack(f"<{4096 * 8}H", stream)]
    sums = []
    for start in range(0, len(words), 4096):
        block = words[start : start + 4096]
        sums += [sum(weight[8 * i + j] * word for i, word in enumerate(block)) for j in range(8)]
    assert max(map(abs, sums)) <= 2**53
    return hashlib.blake2s(struct.pack(f"<{len(sums)}d", *sums), digest_size=16, salt=str(levels).encode()).digest()


@pytest.mark.parametrize("levels", [None, 256, 16])
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 8, 8), (3, 32, 32), (3, 43, 43)])
def test_keys_are_what_exact_arithmetic_says(
    shape: tuple[int, int, int], levels: int | None, rng: torch.Generator
) -> None:
    images = torch.cat(
        [torch.rand(2, *shape, generator=rng), torch.ones(1, *shape), torch.zeros(1, *shape), -torch.zeros(1, *shape)]
    )
    expected = [in_whole_numbers(image.numpy(), levels) for image in images]
    assert fingerprints(spec(shape, levels), images) == expected


def test_keys_do_not_depend_on_the_company_or_the_layout_in_memory(rng: torch.Generator) -> None:
    images = torch.rand(70, 3, 9, 9, generator=rng)
    keys = fingerprints(spec((3, 9, 9)), images)
    assert [fingerprints(spec((3, 9, 9)), image[None])[0] for image in images] == keys
    assert fingerprints(spec((3, 9, 9)), images.contiguous(memory_format=torch.channels_last)) == keys
    assert fingerprints(spec((3, 9, 9)), torch.zeros(0, 3, 9, 9)) == []


def test_the_smallest_change_changes_the_key(rng: torch.Generator) -> None:
    """One unit in the last place of one pixel; two pixels swapped; a mirror; one unit up here and one down there."""
    image = torch.rand(3, 8, 8, generator=rng) * 0.5 + 0.25
    variants: list[Tensor] = [image, image.flip(-1), image.flip(-2), image.flip(0)]
    bits = image.flatten().view(torch.int32)
    for pixel in range(0, 192, 7):
        up = bits.clone()
        up[pixel] += 1
        down = up.clone()
        down[(pixel + 1) % 192] -= 1
        swapped = bits.clone()
        swapped[[pixel, (pixel + 5) % 192]] = bits[[(pixel + 5) % 192, pixel]]
        variants += [changed.view(torch.float32).view(3, 8, 8) for changed in (up, down, swapped)]
    assert len(set(fingerprints(spec((3, 8, 8)), torch.stack(variants)))) == len(variants)


@given(st.lists(st.integers(0, 255), min_size=4, max_size=4), st.floats(-0.49, 0.49))
def test_what_an_8_bit_file_does_not_keep_does_not_count(pixels: list[int], offset: float) -> None:
    exact = torch.tensor(pixels, dtype=torch.float32).view(1, 1, 2, 2) / 255
    near = (exact + offset / 255).clamp(0, 1)
    assert fingerprints(spec((1, 2, 2), 256), near) == fingerprints(spec((1, 2, 2), 256), exact)
    other = torch.where(exact > 0.5, exact - 1 / 255, exact + 1 / 255)
    assert fingerprints(spec((1, 2, 2), 256), other) != fingerprints(spec((1, 2, 2), 256), exact)
