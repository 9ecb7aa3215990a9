"""The SVG writer: well-formed, to scale, and the same bytes for the same numbers."""

import math
import re
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catis.report.chart import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Panel, draw, draw_wrapping
from catis.report.colours import METHODS, OTHERS, SIGNALS
from catis.report.marks import MARKERS, Line, ticks

SVG = "{http://www.w3.org/2000/svg}"


def points(svg: str) -> list[list[tuple[float, float]]]:
    """Of every curve, in pixels."""
    polylines = ElementTree.fromstring(svg).iter(f"{SVG}polyline")
    return [[tuple(map(float, pair.split(","))) for pair in line.attrib["points"].split()] for line in polylines]


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


@pytest.mark.parametrize("marker", ["circle", *MARKERS, ""])
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
    marks = ticks(low, low + span)
    assert marks[0] <= low + 1e-6 * span
    assert marks[-1] >= low + span - 1e-6 * span
    assert 2 <= len(marks) <= 8
    steps = {round(b - a, 9) for a, b in pairwise(marks)}
    assert max(steps) - min(steps) < 1e-6 * max(steps)


def test_every_point_says_its_values_on_hover():
    line = Line("a & b", [1, 2], [0.5, 0.25], "red", "star", low=[0.4, math.nan], high=[0.6, math.nan])
    root = ElementTree.fromstring(draw([Panel("p", "x", "y", [line])], "t"))
    told = [
        mark.find(f"{SVG}title").text for mark in root.iter(f"{SVG}polygon") if mark.find(f"{SVG}title") is not None
    ]
    assert told == ["a & b: 0.5 (0.4 to 0.6) at 1", "a & b: 0.25 at 2"]
    named = Line("a", [1], [0.5], "red", "circle", labels=["r=9: 50 %"])
    assert "<title>r=9: 50 %</title>" in draw([Panel("p", "x", "y", [named])], "t")


def test_loose_points_have_whiskers_and_curves_have_bands():
    values = {"low": [1.0, 2.0], "high": [3.0, 4.0]}
    loose, joined = (Line("a", [0, 1], [2.0, 3.0], "red", joined=joined, **values) for joined in (False, True))
    loose, joined = (draw([Panel("p", "x", "y", [line])], "t") for line in (loose, joined))
    assert (loose.count("<path"), loose.count("fill-opacity")) == (2, 0)
    assert (joined.count("<path"), joined.count("fill-opacity")) == (0, 1)


def test_an_axis_reaches_what_it_is_told():
    texts = [float(t) for t in re.findall(r'font-size="11">([-\d.]+)<', draw([flat_panel((0.0, 1.0))], "t"))]
    assert {0.0, 1.0} <= set(texts)


def flat_panel(y_range):
    return Panel("p", "x", "y", [Line("a", [5, 6], [0.4, 0.5], "red")], y_range)


def test_on_a_page_each_panel_stands_for_itself_with_one_legend():
    html = draw_wrapping([Panel(f"p{k}", "x", "y", [Line("a<b", [0, 1], [0, 1], "red")]) for k in range(3)], "t")
    root = ElementTree.fromstring(f"<div>{html}</div>")
    panels, legend = root
    assert len(panels) == 3
    assert ["".join(key.itertext()).strip() for key in legend] == ["a<b"]


def linear(colour: str) -> np.ndarray:
    shares = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    return np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)


def luminance(colour: str) -> float:
    return float(linear(colour) @ XYZ[1])


@pytest.mark.parametrize("style", [*METHODS.values(), *SIGNALS.values(), *OTHERS])
def test_colours_can_be_read_on_white_and_on_the_dark_page(style):
    bright, dark = luminance("#ffffff"), luminance("#16181c")
    assert (bright + 0.05) / (luminance(style.colour) + 0.05) >= 3
    assert (luminance(style.colour) + 0.05) / (dark + 0.05) >= 3


XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
# Machado, Oliveira, Fernandes 2009: what is seen without the receptors for red, and without those for green.
WITHOUT = {
    "nothing": np.eye(3),
    "red": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "green": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
}


@pytest.mark.parametrize("missing", WITHOUT)
def test_no_two_methods_share_colour_or_marker(missing):
    assert len({style.marker for style in METHODS.values()}) == len(METHODS)
    seen = np.stack([linear(style.colour) for style in METHODS.values()]) @ np.array(WITHOUT[missing]).T
    f = np.cbrt(seen.clip(0, 1) @ XYZ.T / (XYZ @ np.ones(3)))
    lab = np.stack([116 * f[:, 1], 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], 1)
    apart = np.linalg.norm(lab[:, None] - lab, axis=-1) + 1e9 * np.eye(len(lab))
    assert apart.min() > 20  # CIE76; 2.3 is just noticeable
