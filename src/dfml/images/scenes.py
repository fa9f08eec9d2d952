"""Small scenes painted from back to front: soft-edged, shaded, textured parts over a background."""

import math
from dataclasses import dataclass, fields

import torch
from torch import Generator, Tensor

from dfml.images.colours import palette
from dfml.images.layouts import Layout
from dfml.images.numbers import UniformNumbers
from dfml.images.textures import Textures


@dataclass
class Surface:
    """What covers the parts of each image, one row a part: (n, parts) or, for colours, (n, parts, 3)."""

    colour: Tensor
    second: Tensor  # the colour of stripes and patches
    mixed: Tensor  # how much of the second colour shows: 0 plain, 1 full
    stripes: Tensor  # waves across the part, 0 for patches of noise
    grain: Tensor  # strength of the texture
    rim: Tensor  # darkening towards the edge: a ball rather than a disc
    gloss: Tensor  # strength of the highlight


def _rows(table: Layout | Surface, keep: Tensor) -> list[Tensor]:
    """Every field of `table` with its parts reordered by `keep` (n, parts)."""
    image = torch.arange(len(keep)).view(-1, 1)
    return [getattr(table, field.name)[image, keep] for field in fields(table)]


def backgrounds(count: int, size: int, *, colours: Tensor, textures: Textures, rng: Generator) -> Tensor:
    """A plain wall or two zones that meet at a ragged horizon, lit from one side and textured.

    `colours` (count, 2, 3) -> images (count, 3, size, size).
    """

    def draw(low: float, high: float) -> Tensor:
        return torch.rand(count, 1, 1, generator=rng) * (high - low) + low

    y, x = _grid(size)
    ragged = textures.cut(count, low=1.8, high=3.2) * draw(0, 0.25)
    height = y + x * draw(-0.3, 0.3) + ragged + draw(-0.7, 0.7)
    zone = torch.sigmoid_(height * torch.exp(draw(0.0, 3.2))) * (draw(0, 1) < 0.75)
    angle = draw(0, 2 * math.pi)
    light = (x * angle.cos() + y * angle.sin()) * draw(0, 0.35)
    grain = textures.cut(count, low=0.7, high=2.6) * draw(0, 1).square() * 0.3
    below = textures.cut(count, low=0.7, high=1.8) * draw(0, 1).square() * 0.3
    field = 1 + light + torch.lerp(grain, below, zone)
    first, second = colours.unsqueeze(-1).unsqueeze(-1).unbind(1)
    return torch.lerp(first, second, zone.unsqueeze(1)).mul_(field.unsqueeze(1))


def surfaces(layout: Layout, *, colours: Tensor, rng: Generator) -> Surface:
    """Cover every part; parts of one family (`layout.family`) are covered alike. `colours`: (n, families, 3)."""
    n, families, _ = colours.shape
    uniform = UniformNumbers(n, families, rng=rng)

    def draw(low: float, high: float, share: float = 1.0) -> Tensor:
        return (uniform(low, high) * uniform.chance(share)).gather(1, layout.family)

    def pick(values: Tensor) -> Tensor:
        return values.gather(1, layout.family.unsqueeze(-1).expand(-1, -1, 3))

    return Surface(
        colour=pick(colours),
        second=pick(colours.roll(1, 1)),
        mixed=draw(0.3, 1.0, share=0.4),
        stripes=draw(3.0, 14.0, share=0.5),
        grain=draw(0.0, 0.55).square(),
        rim=draw(0.0, 0.5),
        gloss=draw(0.0, 0.5, share=0.35),
    )


def paint(canvas: Tensor, layout: Layout, surface: Surface, *, textures: Textures, rng: Generator) -> Tensor:
    """Paint the parts of each image on `canvas` (n, 3, s, s) in order, skipping those that are absent.

    Parts are packed to the front and images sorted by their number of parts, so that layer i works on
    a plain slice: the images that have an i-th part at all.
    """
    n, _, size, _ = canvas.shape
    present = layout.opacity > 0
    counts = present.sum(1)
    order = counts.argsort(descending=True, stable=True)
    keep = (~present).to(torch.uint8).argsort(dim=1, stable=True)
    shape = [field[order] for field in _rows(layout, keep)]
    cover = [field[order] for field in _rows(surface, keep)]
    canvas, counts = canvas[order], counts[order]
    angle = torch.rand(n, generator=rng) * 2 * math.pi
    strength = torch.rand(n, generator=rng) * 0.45
    light_x, light_y = (angle.cos() * strength).view(-1, 1, 1), (angle.sin() * strength).view(-1, 1, 1)
    y, x = _grid(size)
    for i in range(int(counts[0])):
        m = int((counts > i).sum())
        part = Layout(*(field[:m, i].view(m, 1, 1) for field in shape))
        look = Surface(*(field[:m, i] for field in cover))
        mixed, stripes, grain, rim, gloss = (
            f.view(m, 1, 1) for f in (look.mixed, look.stripes, look.grain, look.rim, look.gloss)
        )
        rough = textures.cut(m, low=0.8, high=2.2)
        smooth = textures.cut(m, low=1.8, high=3.2)
        dx, dy = x - part.x, y - part.y
        cos, sin = part.angle.cos() / part.radius, part.angle.sin() / part.radius
        a, b = dx * cos + dy * sin, (dy * cos - dx * sin) / part.aspect
        b = b * (1 + part.taper * a) + part.bend * a.square()
        disc = (a.square() + b.square()).sqrt_()
        reach = torch.lerp(disc, a.abs().maximum(b.abs()), part.square) + smooth * part.wobble
        mask = torch.sigmoid_((1 - reach) * (part.radius * part.sharp)).mul_(part.opacity)

        lit_x, lit_y = light_x[:m] / part.radius, light_y[:m] / part.radius
        field = dx * lit_x + dy * lit_y  # brighter on the side the light comes from
        spot = (1.3 - (disc.square() - 4 * field + 1)).clamp_(0, 1).square_()
        field = field - rim * disc.square() + rough * grain + gloss * spot + (1 + rim / 2)
        wave = torch.sin(stripes * (a + 0.3 * b) + smooth)
        pattern = torch.where(stripes > 0, wave, smooth).mul_(2).add_(0.5).clamp_(0, 1).mul_(mixed)
        first, second = look.colour.view(m, 3, 1, 1), look.second.view(m, 3, 1, 1)
        fill = torch.lerp(first, second, pattern.unsqueeze(1)).mul_(field.clamp_(0, 2).unsqueeze(1))
        canvas[:m].lerp_(fill, mask.unsqueeze(1))
    return canvas[order.argsort()]


def develop(images: Tensor, *, rng: Generator) -> Tensor:
    """What the camera does: exposure, contrast, a cast, a dark frame, a little blur and grain. In and out in [0, 1]."""
    n, _, size, _ = images.shape

    def draw(low: float, high: float, *shape: int) -> Tensor:
        return torch.rand(n, *(shape or (1,)), 1, 1, generator=rng) * (high - low) + low

    blur = draw(0, 1).square() * 0.5
    near = (images + images.roll(1, -1) + images.roll(1, -2) + images.roll((1, 1), (-2, -1))) / 4
    near[..., 0, :], near[..., 0] = images[..., 0, :], images[..., 0]
    y, x = _grid(size)
    frame = 1 - draw(0, 0.15) * (x.square() + y.square())
    images = torch.lerp(images, near, blur).clamp_(0, 1).mul_(frame)
    images = (images - 0.5) * draw(0.65, 1.25) + 0.5 + draw(-0.12, 0.12) + draw(-0.03, 0.03, 3)
    grain = torch.randn(n, 1, size, size, generator=rng) * draw(0, 0.025)
    return images.add_(grain).clamp_(0, 1)


def scenes(layout: Layout, size: int, *, rng: Generator) -> Tensor:
    """Finished images (n, 3, size, size) in [0, 1] of the parts in `layout`."""
    n, families = len(layout.x), int(layout.family.max()) + 1
    colours = palette(n, families + 2, rng=rng)
    return render(layout, size, colours=colours[:, :families], behind=colours[:, families:], rng=rng)


def render(layout: Layout, size: int, *, colours: Tensor, behind: Tensor, rng: Generator) -> Tensor:
    """Background, parts, camera. `colours`: (n, families, 3) for the parts, `behind`: (n, 2, 3) for the background."""
    textures = Textures(size, rng=rng)
    canvas = backgrounds(len(behind), size, colours=behind, textures=textures, rng=rng)
    surface = surfaces(layout, colours=colours, rng=rng)
    return develop(paint(canvas, layout, surface, textures=textures, rng=rng), rng=rng)


def _grid(size: int) -> tuple[Tensor, Tensor]:
    """Rows (size, 1) and columns (1, size) of pixel centres in [-1, 1]."""
    line = (torch.arange(size) + 0.5) * (2 / size) - 1
    return line.view(-1, 1), line.view(1, -1)
