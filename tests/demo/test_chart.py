"""The SVG writer: well-formed, to scale, and the same bytes for the same numbers."""

import math
import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catis.demo.chart import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Line, Panel, draw, ticks

SVG = "{http://www.w3.org/2000/svg}"


def points(svg: str) -> list[list[tuple[float, float]]]:
    """Of every curve, in pixels."""
    found = ElementTree.fromstring(svg).iter(f"{SVG}polyline")
    return [[tuple(map(float, pair.split(","))) for pair in one.attrib["points"].split()] for one in found]


def test_points_are_to_scale():
    line = Line("a", [0, 5, 10], [0.0, 1.0, 0.25], "#cc3311")
    (curve,) = points(draw([Panel("p", "x", "y", [line])], "t"))
    width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    for (x, y), (at, value) in zip(curve, [(0, 0), (0.5, 1), (1, 0.25)], strict=True):
        assert x == pytest.approx(LEFT + at * width, abs=0.01)
        assert y == pytest.approx(HEIGHT - BOTTOM - value * height, abs=0.01)


def test_a_nan_interrupts_the_curve():
    line = Line("a", [0, 1, 2, 3, 4], [1.0, 2.0, math.nan, 2.0, 1.0], "red", "circle")
    svg = draw([Panel("p", "x", "y", [line])], "t")
    assert [len(curve) for curve in points(svg)] == [2, 2]
    assert "nan" not in svg
    assert len(re.findall("<circle", svg)) == 4 + 1  # four points, one in the legend


def test_text_is_escaped_and_shared_names_have_one_entry():
    panels = [Panel("<p> & q", "x", "y", [Line("a<b", [0, 1], [0, 1], "red")])] * 3
    root = ElementTree.fromstring(draw(panels, "t & u"))
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert texts.count("<p> & q") == 3
    assert texts.count("a<b") == 1
    assert root.find(f"{SVG}title").text == "t & u"


@pytest.mark.parametrize("marker", ["circle", "square", "triangle", "diamond", ""])
def test_markers_bands_and_single_points(marker):
    line = Line("a", [3], [7.0], "red", marker, joined=False, low=[6.0], high=[8.0])
    svg = draw([Panel("p", "x", "y", [line])], "t")
    ElementTree.fromstring(svg)
    assert points(svg) == []
    assert svg == draw([Panel("p", "x", "y", [line])], "t")


def test_a_panel_without_values_is_drawn():
    svg = draw([Panel("p", "x", "y", [Line("a", [], [], "red")])], "t")
    assert "p" in [element.text for element in ElementTree.fromstring(svg).iter()]
    assert points(svg) == []


@given(st.floats(-1e4, 1e4), st.floats(1e-3, 1e4))
def test_ticks_are_round_cover_the_range_and_are_few(low, span):
    found = ticks(low, low + span)
    assert found[0] <= low + 1e-6 * span
    assert found[-1] >= low + span - 1e-6 * span
    assert 2 <= len(found) <= 8
    steps = {round(b - a, 9) for a, b in pairwise(found)}
    assert max(steps) - min(steps) < 1e-6 * max(steps)
