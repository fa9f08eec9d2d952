"""Images from nothing: an endless, seeded stream of procedural pictures to ask APIs about."""

from collections.abc import Iterator
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from dfml.errors import ConfigError
from dfml.images.colours import LUMINANCE
from dfml.images.layouts import leaves, things
from dfml.images.networks import network_pictures
from dfml.images.scenes import scenes
from dfml.images.textures import pink
from dfml.rng import stream
from dfml.runtime import one_core

Pictures = Literal["painted", "mixed"]
"""painted: noise, leaves and things; mixed: half of them painted, half made by random networks"""
CHUNK = 256
LARGEST = 96
"""the most pixels across that are painted one by one"""
DRAWN = 80
"""larger images are painted at this size and enlarged"""
GRAIN = 0.03
"""the strongest noise on enlarged images, as a standard deviation"""


class Prior:
    """8-bit images (n, channels, size, size) drawn from nothing, of one kind (`Pictures`).

    Image i depends on the kind, the seed, the shape and i alone, never on how many are asked for, in what order or on
    how many cores, because images are drawn in chunks that each have a stream of random numbers of their own. Images of
    more than `LARGEST` pixels are drawn at `DRAWN` pixels and enlarged: a tenth of the work, and to networks of 224
    pixels they say nearly as much (see `enlarge`).
    """

    def __init__(self, *, seed: int, size: int = 32, channels: int = 3, kind: Pictures = "painted") -> None:
        if size < 8:
            raise ConfigError(f"prior images of {size}x{size} are too small to hold anything; ask for 8 pixels or more")
        if channels not in (1, 3):
            raise ConfigError(f"prior images have 1 channel (grey) or 3 (colour), not {channels}")
        if kind not in get_args(Pictures):
            raise ConfigError(f"unknown pictures {kind!r}; choose one of {', '.join(get_args(Pictures))}")
        self.seed, self.size, self.channels, self.kind = seed, size, channels, kind

    def chunk(self, index: int) -> Tensor:
        """Images `index * CHUNK` to `(index + 1) * CHUNK` of the stream, as uint8 (CHUNK, channels, size, size)."""
        rng = stream(self.seed, "prior" if self.kind == "painted" else self.kind, self.size, index)
        draw = painted if self.kind == "painted" else mixed
        with one_core():  # one level more or less is another picture, and another query
            if self.size <= LARGEST:
                return finish(draw(CHUNK, self.size, rng=rng), self.channels)
            return enlarge(draw(CHUNK, DRAWN, rng=rng), self.size, self.channels, rng=rng)

    def images(self, start: int, count: int) -> Tensor:
        """Images `start` to `start + count` of the stream, as uint8 (count, channels, size, size)."""
        drawn = torch.empty(max(0, count), self.channels, self.size, self.size, dtype=torch.uint8)
        place = 0
        while place < count:  # each into its place, for all of them at once may be large
            index, skipped = divmod(start + place, CHUNK)
            part = self.chunk(index)[skipped:][: count - place]
            drawn[place : place + len(part)] = part
            place += len(part)
        return drawn

    def batches(self, size: int) -> Iterator[Tensor]:
        """The stream from its beginning without end, `size` images at a time."""
        kept, index = self.images(0, 0), 0
        while True:
            while len(kept) < size:
                kept, index = torch.cat([kept, self.chunk(index)]), index + 1
            yield kept[:size].clone()
            kept = kept[size:]


def prior(count: int, *, seed: int, size: int = 32, channels: int = 3, kind: Pictures = "painted") -> Tensor:
    """The first `count` images of the stream: uint8 (count, channels, size, size)."""
    return Prior(seed=seed, size=size, channels=channels, kind=kind).images(0, count)


def finish(images: Tensor, channels: int) -> Tensor:
    """Colour images in [0, 1] as 8-bit ones with 1 or 3 channels."""
    if channels == 1:
        images = torch.einsum("c,nchw->nhw", LUMINANCE, images).unsqueeze(1)
    return images.mul(255).round_().to(torch.uint8)


def enlarge(images: Tensor, size: int, channels: int, *, rng: Generator) -> Tensor:
    """Colour images (n, 3, h, h) in [0, 1] as 8-bit ones of `size` x `size`, with grain of the full size.

    Without grain, pictures are smooth at the scale of a pixel as no photograph is, and tell less. What an answer says
    about which of 256 images it was, in nats, painted at full size, enlarged with grain, and without:
    2.23, 2.19, 2.05 for MobileNet v2, 1.38, 1.29, 1.14 for EfficientNet-Lite0.
    """
    small = finish(images, channels).contiguous(memory_format=torch.channels_last)  # in this order it is fast
    strength = torch.rand(len(images), generator=rng) * GRAIN * 255
    noise = torch.randn(2 * size, 2 * size, generator=rng)
    top, left = torch.randint(size + 1, (2, len(images)), generator=rng).tolist()
    large = torch.empty(len(images), channels, size, size, dtype=torch.uint8)
    for i in range(len(images)):  # one by one: what is worked on stays in the cache
        image = F.interpolate(small[i : i + 1], (size, size), mode="bicubic", align_corners=False)[0].contiguous()
        grain = noise[top[i] : top[i] + size, left[i] : left[i] + size] * strength[i]
        large[i] = (image + grain.round_().to(torch.int16)).clamp_(0, 255)
    return large


def mixed(count: int, size: int, *, rng: Generator) -> Tensor:
    """`count` images (count, 3, size, size) in [0, 1], shuffled: half of them `painted`, half by random networks."""
    half = count // 2
    images = torch.cat([painted(count - half, size, rng=rng), network_pictures(half, size, rng=rng)])
    return images[torch.randperm(count, generator=rng)]


def painted(count: int, size: int, *, rng: Generator) -> Tensor:
    """`count` images (count, 3, size, size) in [0, 1], shuffled: 1 in 8 noise, 3 in 8 leaves, half things."""
    noise, scattered = count // 8, 3 * count // 8
    rest = count - noise - scattered
    middle = leaves(rest, most=4, size=size, rng=rng).beside(things(rest, size=size, rng=rng), apart=True)
    images = torch.cat([
        pink(noise, size, rng=rng),
        scenes(leaves(scattered, most=20, size=size, rng=rng), size, rng=rng),
        scenes(middle, size, rng=rng),
    ])  # fmt: skip
    return images[torch.randperm(count, generator=rng)]
