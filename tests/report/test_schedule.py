"""The figure of schedules beside rho_s: every curve in it, and to the point where numbers do not fit."""

import math
from xml.etree import ElementTree

import pytest

from catis.diagnostics.estimates import Estimate
from catis.report.chart import draw
from catis.report.diagnosis import removal_rates, schedule_panels

KEPT = {"tuned": [60, 40, 20], "constant r": [43, 22, 11]}
RHO = {
    name: [Estimate(value, value - 0.1, value + 0.1, 8) for value in (0.9, 0.6, 0.3)] for name in ("pairwise", "fused")
}


def test_three_panels_have_all_curves():
    tokens, rates, rho = schedule_panels(KEPT, 64, RHO)
    assert [line.name for line in tokens.lines] == ["vanilla", "tuned", "constant r"]
    assert [list(line.y) for line in tokens.lines] == [[64] * 3, *KEPT.values()]
    assert rates.lines[0].y == pytest.approx([math.log(64 / 60), math.log(1.5), math.log(2)])
    assert [line.name for line in rho.lines] == ["pairwise", "fused"]
    assert [tokens.lines[1].colour, tokens.lines[2].colour] == [line.colour for line in rates.lines]
    ElementTree.fromstring(draw([tokens, rates, rho], "a < b"))


def test_curves_of_other_models_are_refused():
    with pytest.raises(ValueError, match="tuned 2, pairwise 3, fused 3; expected the same number"):
        schedule_panels({"tuned": [3, 2]}, 4, RHO)


def test_rates_of_an_emptied_block():
    assert removal_rates([1, 1], 2) == [math.log(2), 0.0]
    assert math.isnan(removal_rates([0], 1)[0])
