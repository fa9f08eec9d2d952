"""Where the parts of a scene lie: leaves scattered at random, or one thing in the middle made of repeated parts."""

import math
from dataclasses import dataclass, fields

import torch
from torch import Generator, Tensor

from dfml.images.numbers import UniformNumbers


@dataclass
class Layout:
    """The parts of n images from back to front; every field is (n, parts), lengths in half image widths."""

    x: Tensor
    y: Tensor
    radius: Tensor
    aspect: Tensor  # width across / length along, in (0, 1]
    angle: Tensor
    square: Tensor  # 0 an ellipse, 1 a box
    taper: Tensor  # how much one end is thinner
    bend: Tensor
    wobble: Tensor  # raggedness of the outline
    sharp: Tensor  # steepness of the edge, per half image width
    opacity: Tensor  # 0: there is no such part
    family: Tensor  # long; parts of one family look alike

    def beside(self, other: "Layout", *, apart: bool) -> "Layout":
        """The parts of `self`, then those of `other` in front of them; `apart` keeps their families different."""
        shift = int(self.family.max()) + 1 if apart else 0
        pairs = (
            (getattr(self, f.name), getattr(other, f.name) + (shift if f.name == "family" else 0)) for f in fields(self)
        )
        return Layout(*(torch.cat(pair, 1) for pair in pairs))


def leaves(count: int, *, most: int, size: int, rng: Generator) -> Layout:
    """Up to `most` parts anywhere, all different; small ones are the most frequent, as in dead-leaves images."""
    draw, each = UniformNumbers(count, most, rng=rng), UniformNumbers(count, 1, rng=rng)
    number = torch.exp(each(0, 1) * math.log(most + 1)) - 1
    radius = (0.1**-1.2 + (0.9**-1.2 - 0.1**-1.2) * draw(0, 1)) ** (-1 / 1.2)
    return Layout(
        x=draw(-1, 1), y=draw(-1, 1), radius=radius, aspect=draw(0.2, 1), angle=draw(0, math.pi),
        square=draw.chance(0.4) * draw(0.4, 1), taper=draw(-0.6, 0.6) * draw.chance(0.4), bend=draw(-0.5, 0.5),
        wobble=draw(0, 0.3), sharp=_edges(draw, size), opacity=(torch.arange(most) < number.round()).float(),
        family=torch.arange(most).expand(count, -1),
    )  # fmt: skip


def things(count: int, *, size: int, rng: Generator, limbs: int = 5) -> Layout:
    """One thing in the middle: a shadow, limbs, a body, a head and marks on top, each family of its own make.

    Limbs and marks repeat one part with a symmetry, as legs, wheels, petals and eyes do: turned around the body,
    side by side in a row, or mirrored.
    """
    one = UniformNumbers(count, 1, rng=rng)
    pose, each = UniformNumbers(count, 1, rng=rng), UniformNumbers(count, limbs, rng=rng)
    scale, turn = pose(0.35, 0.9), pose(-0.5, 0.5) + pose.chance(0.15) * pose(-math.pi, math.pi)
    across, down = pose(-0.3, 0.3), pose(-0.25, 0.25)
    aspect, square = one(0.3, 1), one.chance(0.35) * one(0.3, 1)
    side = pose.chance(0.5) * 2 - 1

    def family(index: int, parts: int, x: Tensor, y: Tensor, **given: Tensor) -> Layout:
        """Parts given in the frame of the thing, moved to where it stands."""
        cos, sin = turn.cos(), turn.sin()
        at = {name: value.expand(count, parts) for name, value in given.items()}
        angle = at.pop("angle") + turn
        return Layout(
            x=across + scale * (x * cos - y * sin), y=down + scale * (x * sin + y * cos),
            radius=(scale * at.pop("radius")).clamp_min(1.5 / size), angle=angle,
            sharp=_edges(pose, size).expand(count, parts),
            family=torch.full((count, parts), index), **at,
        )  # fmt: skip

    def repeated(index: int, *, length: tuple[float, float], reach: tuple[float, float], share: float) -> Layout:
        """`limbs` copies of one part in a ring, a row or a mirrored pair."""
        number = one(1, limbs + 1).floor()
        step = torch.arange(limbs).expand(count, -1)
        kind, start, distance, size_ = one(0, 3).floor(), one(-math.pi, math.pi), one(*reach), one(*length)
        ring = start + 2 * math.pi * step / number
        mirrored = torch.where(step % 2 == 0, start, math.pi - start)
        polar = torch.where(kind == 0, ring, mirrored)
        along = (step / (number - 1).clamp_min(1) - 0.5) * one(0.8, 1.8)
        row = kind == 1
        number = torch.where(kind == 2, number.clamp_max(2), number)
        x = torch.where(row, along, distance * polar.cos())
        flat = torch.where(kind == 0, 1, aspect)
        y = torch.where(row, aspect * distance * one(0.6, 1.2), distance * polar.sin() * flat)
        hang = math.pi / 2 + one(-0.2, 0.2) * (step - number / 2)
        there = (step < number).float() * one.chance(share)
        return family(
            index, limbs, x, y, radius=size_ * (1 + 0.1 * each(-1, 1)), aspect=one(0.18, 1),
            angle=torch.where(row, hang, polar), square=one.chance(0.25), taper=one(-0.5, 0.5), bend=one(-0.4, 0.4),
            wobble=one(0, 0.1), opacity=there,
        )  # fmt: skip

    none = torch.zeros(count, 1)
    shadow = family(
        0, 1, none, aspect * one(0.8, 1.3), radius=one(0.9, 1.3), aspect=one(0.15, 0.4), angle=-turn, square=none,
        taper=none, bend=none, wobble=none, opacity=one.chance(0.5) * one(0.2, 0.6),
    )  # fmt: skip
    shadow.sharp = shadow.sharp * 0.3
    body = family(
        1, 1, none, none, radius=none + 1, aspect=aspect, angle=none, square=square, taper=one(-0.5, 0.5) * side,
        bend=one(-0.4, 0.4), wobble=one(0, 0.2), opacity=none + 1,
    )  # fmt: skip
    head = family(
        1, 1, side * one(0.5, 1.2), -one(0.1, 1.1) * aspect, radius=one(0.25, 0.6), aspect=one(0.5, 1),
        angle=one(-0.6, 0.6), square=square * one.chance(0.5), taper=one(-0.4, 0.4), bend=none, wobble=one(0, 0.15),
        opacity=one.chance(0.5),
    )  # fmt: skip
    layout = shadow
    for front in (
        repeated(2, length=(0.2, 0.8), reach=(0.5, 1.2), share=0.7), body, head,
        repeated(3, length=(0.07, 0.35), reach=(0.1, 0.8), share=0.6),
    ):  # fmt: skip
        layout = layout.beside(front, apart=False)
    return layout


def _edges(draw: UniformNumbers, size: int) -> Tensor:
    """Edges from a tenth of a pixel to four pixels of a 32-pixel image wide."""
    return torch.exp(draw(1.4, 4.2)) * min(1.0, size / 32)
