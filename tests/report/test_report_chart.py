"""Charts: round ticks that enclose the data, and points that lie where their values say."""

import math
from itertools import pairwise
from xml.etree import ElementTree as Xml

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dfml.report.chart import COLOURS, Series, decades, draw, short, smooth, steps, thin

ordinary = st.floats(-1e6, 1e6, allow_nan=False).map(lambda v: round(v, 3))


@given(ordinary, ordinary)
def test_linear_ticks_are_round_few_and_enclose(a, b):
    low, high = min(a, b), max(a, b)
    ticks = steps(low, high)
    slack = 1e-6 * max(1.0, abs(low), abs(high))
    assert ticks[0] <= low + slack
    assert ticks[-1] >= high - slack
    assert 2 <= len(ticks) <= 8
    step = ticks[1] - ticks[0]
    mantissa = step / 10 ** math.floor(math.log10(step) + 1e-6)
    assert any(mantissa == pytest.approx(unit, rel=1e-3) for unit in (1, 2, 5))


@given(st.floats(1e-3, 1e9), st.floats(1e-3, 1e9))
def test_decades_enclose(a, b):
    ticks = decades(min(a, b), max(a, b))
    assert ticks[0] <= min(a, b) * (1 + 1e-6)
    assert ticks[-1] >= max(a, b) * (1 - 1e-6)
    assert all(later / earlier == pytest.approx(10) for earlier, later in pairwise(ticks))


def placed(svg):
    """What a reader would do: the axes' labels with their places, and the places of the marks."""
    root = Xml.fromstring(svg)
    texts = [
        (t.text, float(t.attrib["x"]), float(t.attrib["y"])) for t in root.iter("text") if t.get("transform") is None
    ]
    marks = [(float(c.attrib["cx"]), float(c.attrib["cy"])) for c in root.iter("circle")]
    return texts, marks


def test_a_reader_gets_the_values_back():
    values = [(100.0, 20.0), (3000.0, 35.0), (100000.0, 60.0)]
    texts, marks = placed(draw("t", [Series("a", values, marks=True)], x="queries", y="percent", log_x=True).svg)
    across = {text: x for text, x, y in texts if text in ("100", "100k")}
    up = {text: y - 4 for text, x, y in texts if text in ("20", "60")}
    for (x, y), (cx, cy) in zip(values, marks, strict=True):
        share = (cx - across["100"]) / (across["100k"] - across["100"])
        assert 100 * 1000**share == pytest.approx(x, rel=0.01)
        assert 20 + 40 * (cy - up["20"]) / (up["60"] - up["20"]) == pytest.approx(y, abs=0.1)


def test_what_has_no_points_is_a_level_across():
    chart = draw("t", [Series("a", [(1, 2), (2, 3)]), Series("none", level=2.5)], x="x", y="y")
    level = Xml.fromstring(chart.svg).find("g[@class='s1 level']/line")
    assert level.get("y1") == level.get("y2")
    assert [label for _, label in chart.legend] == ["a", "none"]
    assert "none: 2.5 throughout" in chart.svg


def test_labels_cannot_break_out():
    evil = '<script>alert("1")</script>&'
    chart = draw(evil, [Series(evil, [(0, 1), (1, 2)])], x=evil, y=evil)
    assert "<script" not in chart.svg
    assert evil in "".join(Xml.fromstring(chart.svg).itertext())


def test_many_series_stay_apart():
    series = [Series(str(i), [(0, i), (1, i)]) for i in range(2 * COLOURS)]
    assert len({style for style, _ in draw("t", series, x="x", y="y").legend}) == 2 * COLOURS


def test_smoothing_is_a_running_mean():
    assert smooth([(0, 1), (1, 3), (2, 8)], window=2) == [(0, 1), (1, 2), (2, 5.5)]


@pytest.mark.parametrize("count", [0, 1, 300, 301, 100_000])
def test_long_curves_are_thinned_but_keep_their_end(count):
    points = [(float(i), float(i)) for i in range(count)]
    kept = thin(points)
    assert len(kept) <= 300
    assert kept[-1:] == points[-1:]
    assert count > 300 or kept == points


@pytest.mark.parametrize(("value", "text"), [(0.2, "0.2"), (1000, "1k"), (1.5e6, "1.5M"), (0, "0"), (-2000, "-2k")])
def test_short_numbers(value, text):
    assert short(value) == text
