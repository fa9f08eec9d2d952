"""The embedded data set: characters of many scripts, drawn in colour on textures, in random poses.

Nothing is stored: the fonts come with matplotlib, everything else follows from the seed. Scripts, not characters, are
split into train, val and test, so that a test task asks for characters of an alphabet that was never seen.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import matplotlib
import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageDraw, ImageFont
from torch import Generator, Tensor

from dfml.data.scripts import characters, class_name
from dfml.data.source import Pixels, fingerprint
from dfml.rng import stream

FONTS = ("DejaVuSans.ttf", "DejaVuSans-Bold.ttf")
IMAGES_PER_CLASS = 120
_RECIPE = 1  # count up when the drawing changes, so that no cache keeps old images


@dataclass(frozen=True, kw_only=True)
class Glyphs:
    """One part of the embedded data set at `size` x `size` pixels."""

    part: str
    size: int = 32
    seed: int = 0
    images_per_class: int = IMAGES_PER_CLASS

    @property
    def name(self) -> str:
        return "glyphs"

    @property
    def shape(self) -> tuple[int, int, int]:
        return (3, self.size, self.size)

    @cached_property
    def classes(self) -> tuple[str, ...]:
        return tuple(map(class_name, characters(self.part)))

    @property
    def counts(self) -> tuple[int, ...]:
        return (self.images_per_class,) * len(self.classes)

    @property
    def key(self) -> str:
        return fingerprint(_RECIPE, characters(self.part), self.size, self.seed, self.images_per_class)

    def batches(self) -> Iterator[Pixels]:
        """One batch a class; each has its own random stream, so parts and classes do not shift each other."""
        for character in characters(self.part):
            rng = stream(self.seed, "glyphs", character, self.size)
            yield draw(character, self.images_per_class, size=self.size, rng=rng)


def draw(character: str, count: int, *, size: int, rng: Generator) -> Pixels:
    """`count` images (count, 3, size, size) of one character, each with its own font, pose, colours and texture."""
    shapes = torch.stack([silhouette(character, font, 2 * size) for font in FONTS])
    mask = _posed(shapes[torch.randint(len(FONTS), (count,), generator=rng)], rng)
    ink, paper = _colours(count, rng)
    texture = _textures(count, size, rng)
    image = torch.lerp(paper + texture[:, 0], ink + texture[:, 1], mask)
    image += 0.06 * torch.randn(image.shape, generator=rng)  # a sensor's noise
    return (image.clamp_(0, 1) * 255).round_().to(torch.uint8).numpy()


def silhouette(character: str, font: str, canvas: int) -> Tensor:
    """The character as coverage (1, canvas, canvas) in [0, 1]: centred, its longer side 7/10 of the canvas."""
    file = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / font
    # The basic layout draws one code point as one glyph; the other one depends on what libraries are installed.
    face = ImageFont.truetype(str(file), 3 * canvas, layout_engine=ImageFont.Layout.BASIC)
    left, top, right, bottom = (int(edge) for edge in face.getbbox(character))
    drawn = Image.new("L", (right - left, bottom - top))
    ImageDraw.Draw(drawn).text((-left, -top), character, font=face, fill=255)
    drawn = drawn.crop(drawn.getbbox())
    scale = 0.7 * canvas / max(drawn.size)
    width, height = (max(1, round(scale * side)) for side in drawn.size)
    centred = Image.new("L", (canvas, canvas))
    centred.paste(drawn.resize((width, height), Image.Resampling.BOX), ((canvas - width) // 2, (canvas - height) // 2))
    return torch.from_numpy(np.array(centred, dtype=np.float32) / 255).unsqueeze(0)


def _uniform(low: float, high: float, shape: tuple[int, ...], rng: Generator) -> Tensor:
    return low + (high - low) * torch.rand(shape, generator=rng)


def _posed(shapes: Tensor, rng: Generator) -> Tensor:
    """Turn, shear, scale and shift shapes (n, 1, 2s, 2s), then halve them to (n, 1, s, s), which smooths the edges."""
    n = len(shapes)
    angle = _uniform(-0.45, 0.45, (n,), rng)  # 26 degrees either way
    shear = _uniform(-0.3, 0.3, (n,), rng)
    zoom = 1 / _uniform(0.55, 1.1, (n, 2), rng)
    shift = _uniform(-0.3, 0.3, (n, 2), rng)
    cos, sin = angle.cos(), angle.sin()
    rows = torch.stack([cos, shear - sin, shift[:, 0], sin, cos, shift[:, 1]], 1).view(n, 2, 3)
    rows = torch.cat([rows[..., :2] * zoom.unsqueeze(-1), rows[..., 2:]], 2)
    grid = F.affine_grid(rows, list(shapes.shape), align_corners=False)
    return F.avg_pool2d(F.grid_sample(shapes, grid, mode="bilinear", align_corners=False), 2)


_LUMA = torch.tensor([0.299, 0.587, 0.114])


def _colours(count: int, rng: Generator) -> tuple[Tensor, Tensor]:
    """Ink and paper (n, 3, 1, 1) whose brightness differs by 0.25 to 0.5, whatever their hues."""
    paper = _uniform(0.1, 0.9, (count, 1), rng)
    contrast = _uniform(0.25, 0.5, (count, 1), rng)
    contrast = torch.where(torch.rand((count, 1), generator=rng) < 0.5, contrast, -contrast)
    ink = paper + contrast
    ink = torch.where((ink > 1) | (ink < 0), paper - contrast, ink).clamp(0, 1)
    hues = _uniform(-0.3, 0.3, (2, count, 3), rng)
    hues = hues - (hues @ _LUMA).unsqueeze(-1)  # colour without brightness
    return (ink + hues[0]).view(count, 3, 1, 1), (paper + hues[1]).view(count, 3, 1, 1)


def _textures(count: int, size: int, rng: Generator) -> Tensor:
    """Two coloured textures (n, 2, 3, size, size) about zero: one for the paper, a fainter one for the ink."""
    angle, phase = _uniform(0, 2 * math.pi, (2, count, 2, 1, 1), rng)
    cycles = _uniform(1, 6, (count, 2, 1, 1), rng)
    axis = torch.linspace(-0.5, 0.5, size)
    slope = angle.cos() * axis.view(1, 1, 1, size) + angle.sin() * axis.view(1, 1, size, 1)
    stripes = torch.sin(2 * math.pi * cycles * slope + phase)
    fields = torch.stack([_pink_noise(count, size, rng), stripes, 2 * slope], 2)  # (n, 2, 3 kinds, s, s)
    weights = torch.softmax(_uniform(-4, 4, (count, 2, 3), rng), -1)
    field = torch.einsum("nkf,nkfhw->nkhw", weights, fields)
    tint = _uniform(-0.25, 0.25, (count, 2, 3), rng) + _uniform(-0.15, 0.15, (count, 2, 1), rng)
    tint[:, 1] *= 0.5
    return field.unsqueeze(2) * tint[..., None, None]


def _pink_noise(count: int, size: int, rng: Generator) -> Tensor:
    """Noise (n, 2, size, size) of unit variance whose power falls as 1/f^2, like that of photographs."""
    fy, fx = torch.fft.fftfreq(size).view(-1, 1), torch.fft.fftfreq(size).view(1, -1)
    gain = 1 / (fy**2 + fx**2).sqrt().clamp_min(1 / size)
    gain[0, 0] = 0  # no brightness of its own
    gain = gain / gain.square().mean().sqrt()
    white = torch.randn((count, 2, size, size), generator=rng)
    pink: Tensor = torch.fft.irfft2(torch.fft.rfft2(white) * gain[:, : size // 2 + 1], s=(size, size))
    return pink
