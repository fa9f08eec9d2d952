"""Small line charts as inline SVG, in the colours of the page around them."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from xml.etree import ElementTree as Xml

WIDTH, HEIGHT = 360, 240  # near the size on a phone, so that the letters stay legible there
LEFT, RIGHT, TOP, BOTTOM = 46, 18, 10, 42
COLOURS = 6
"""classes `s0` to `s5` of the style sheet; further series begin again, with dashes"""

Point = tuple[float, float]


@dataclass(frozen=True)
class Series:
    """One line; `intervals` are half-widths around its points. Without points, a level drawn across the chart."""

    label: str
    points: Sequence[Point] = ()
    intervals: Sequence[float] = ()
    level: float | None = None
    faint: Sequence[Point] = ()
    """single values behind a smoothed line"""
    marks: bool = False


@dataclass(frozen=True)
class Chart:
    """A drawn chart."""

    title: str
    svg: str
    legend: tuple[tuple[str, str], ...]
    """style class and label of each series; empty where one needs no telling apart"""


class Axis:
    """Values to pixels, linear or logarithmic, between round numbers."""

    def __init__(self, values: Iterable[float], start: float, end: float, *, log: bool = False) -> None:
        kept = [v for v in values if math.isfinite(v) and (v > 0 or not log)] or [1.0]
        self.start, self.end, self.log = start, end, log
        self.ticks = decades(min(kept), max(kept)) if log else steps(min(kept), max(kept))
        self.low, self.high = self._place(self.ticks[0]), self._place(self.ticks[-1])

    def __call__(self, value: float) -> float:
        return self.start + (self._place(value) - self.low) / (self.high - self.low) * (self.end - self.start)

    def _place(self, value: float) -> float:
        return math.log10(value) if self.log else value


def steps(low: float, high: float, *, about: int = 5) -> list[float]:
    """Round numbers, 1, 2 or 5 times a power of ten apart, that enclose `low` and `high`."""
    span = (high - low) or abs(high) or 1.0
    power = 10.0 ** math.floor(math.log10(span / about))
    step = next(power * unit for unit in (1, 2, 5, 10) if power * unit * about >= span * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(i * step, 10) for i in range(first, max(last, first + 1) + 1)]


def decades(low: float, high: float) -> list[float]:
    """Powers of ten that enclose `low` and `high`."""
    first, last = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
    return [10.0**i for i in range(first, max(last, first + 1) + 1)]


def short(value: float) -> str:
    """12000 as `12k`, 0.25 as it is."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def draw(title: str, series: Sequence[Series], *, x: str, y: str, log_x: bool = False) -> Chart:
    """`series` over an axis called `x`, against one called `y`."""
    points = [p for s in series for p in (*s.points, *s.faint)]
    reach = [v + sign * w for s in series for (_, v), w in zip(s.points, s.intervals, strict=False) for sign in (1, -1)]
    levels = [s.level for s in series if s.level is not None]
    places = [a for a, _ in points]
    if log_x:  # a lone point should not lie on the frame
        places = [a * factor for a in places for factor in (0.7, 1.5)]
    across = Axis(places, LEFT, WIDTH - RIGHT, log=log_x)
    up = Axis([*(b for _, b in points), *reach, *levels], HEIGHT - BOTTOM, TOP)
    svg = Xml.Element("svg", {"viewBox": f"0 0 {WIDTH} {HEIGHT}", "role": "img", "class": "chart"})
    Xml.SubElement(svg, "title").text = f"{title}: {y} against {x}. " + " ".join(map(_described, series))
    _grid(svg, across, up, x, y)
    for number, one in enumerate(series):
        _line(Xml.SubElement(svg, "g", {"class": style(number, one)}), one, across, up)
    legend = tuple((style(number, one), one.label) for number, one in enumerate(series)) if len(series) > 1 else ()
    return Chart(title, Xml.tostring(svg, encoding="unicode"), legend)


def style(number: int, series: Series) -> str:
    """The style classes of the series `number`."""
    kind = " level" if series.level is not None else " dashed" if number >= COLOURS else ""
    return f"s{number % COLOURS}{kind}"


def smooth(points: Sequence[Point], *, window: int) -> list[Point]:
    """Running mean over up to `window` points that end at each."""
    sums = list(accumulate((value for _, value in points), initial=0.0))
    return [
        (place, (sums[i + 1] - sums[max(0, i + 1 - window)]) / min(i + 1, window))
        for i, (place, _) in enumerate(points)
    ]


def thin(points: Sequence[Point], *, most: int = 300) -> list[Point]:
    """At most `most` points, evenly spread, the last among them: a page need not carry every one of 100,000."""
    stride = -(-len(points) // most) or 1
    return list(points[::-1][::stride][::-1])


def _grid(svg: Xml.Element, across: Axis, up: Axis, x: str, y: str) -> None:
    grid = Xml.SubElement(svg, "g", {"class": "grid"})
    for tick in up.ticks:
        _add(grid, "line", x1=LEFT, x2=WIDTH - RIGHT, y1=up(tick), y2=up(tick))
        _add(grid, "text", short(tick), x=LEFT - 6, y=up(tick) + 4, anchor="end")
    for tick in across.ticks:
        _add(grid, "line", x1=across(tick), x2=across(tick), y1=HEIGHT - BOTTOM, y2=HEIGHT - BOTTOM + 4)
        _add(grid, "text", short(tick), x=across(tick), y=HEIGHT - BOTTOM + 18, anchor="middle")
    _add(grid, "text", x, x=(LEFT + WIDTH - RIGHT) / 2, y=HEIGHT - 6, anchor="middle")
    middle = (TOP + HEIGHT - BOTTOM) / 2
    _add(grid, "text", y, x=12, y=middle, anchor="middle", transform=f"rotate(-90 12 {middle:g})")


def _line(group: Xml.Element, series: Series, across: Axis, up: Axis) -> None:
    for place, value in series.faint:
        _add(group, "circle", cx=across(place), cy=up(value), r=1.5, style="faint")
    if series.level is not None:
        _add(group, "line", x1=LEFT, x2=WIDTH - RIGHT, y1=up(series.level), y2=up(series.level))
    for (place, value), width in zip(series.points, series.intervals, strict=False):
        _add(group, "line", x1=across(place), x2=across(place), y1=up(value - width), y2=up(value + width))
    path = " ".join(f"{across(place):.1f},{up(value):.1f}" for place, value in series.points)
    if len(series.points) > 1:
        _add(group, "polyline", points=path)
    if series.marks or len(series.points) == 1:
        for place, value in series.points:
            _add(group, "circle", cx=across(place), cy=up(value), r=4)


def _described(series: Series) -> str:
    """For who cannot see the line."""
    if series.level is not None:
        return f"{series.label}: {series.level:.4g} throughout."
    if not series.points:
        return ""
    (first, begins), (last, ends) = series.points[0], series.points[-1]
    if len(series.points) == 1:
        return f"{series.label}: {begins:.4g} at {short(first)}."
    trend = "rises" if ends > begins else "falls" if ends < begins else "stays"
    return f"{series.label} {trend} from {begins:.4g} at {short(first)} to {ends:.4g} at {short(last)}."


def _add(parent: Xml.Element, tag: str, text: str = "", *, anchor: str = "", style: str = "", **facts: object) -> None:
    written = {key: f"{value:.1f}" if isinstance(value, float) else str(value) for key, value in facts.items()}
    if anchor:
        written["text-anchor"] = anchor
    if style:
        written["class"] = style
    Xml.SubElement(parent, tag, written).text = text or None
