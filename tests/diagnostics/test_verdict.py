"""The verdict's five states with their numbers, and the prediction of r_crit from one probe."""

import math

import numpy as np
import pytest
import torch

from catis.core.schedule import Schedule
from catis.diagnostics.amplifier import Channel
from catis.diagnostics.estimates import Estimate
from catis.diagnostics.prediction import FlipCurve, Tolerance, predict_critical_r, steps_seen
from catis.diagnostics.verdict import judge


def share(mean, n=1000):
    return Estimate(mean, math.nan, math.nan, n)


@pytest.mark.parametrize(
    ("agreement", "rise", "r", "r_crit", "state"),
    [
        (share(0.99), 0.0, 4, 12, "healthy"),
        (share(0.95), 0.2, 4, 12, "too few images to tell"),  # the limit itself: no number of images decides
        (share(0.85, 20), 0.2, 4, 12, "too few images to tell"),  # 15 points lost, but 3.2 to 37.9 is the interval
        (share(1.0, 1), 0.0, 4, 12, "too few images to tell"),
        (share(1.0, 71), 0.0, 4, 12, "too few images to tell"),
        (share(1.0, 72), 0.0, 4, 12, "healthy"),
        (share(0.97), 0.0, 10, 12, "trigger soon"),
        (share(0.97), 0.0, 9, 12, "healthy"),
        (share(0.97), 0.0, 9, None, "healthy"),
        (share(0.97), 0.0, 9, math.inf, "healthy"),
        (share(0.80), 0.06, 13, 12, "collapsed: structural"),
        (share(0.80), 0.04, 13, 12, "collapsed: semantic"),
        (None, 0.06, 13, None, "collapsed: structural"),
        (None, 0.0, 13, None, "healthy"),
    ],
)
def test_states(agreement, rise, r, r_crit, state):
    verdict = judge(agreement, rise, r, r_crit)
    assert verdict.state == state
    assert verdict.numbers["rho_off_rise"] == pytest.approx(rise)
    assert any("rho_off" in reason for reason in verdict.reasons)


def test_reasons_carry_the_numbers():
    reasons = " ".join(judge(share(0.80, 100), 0.1, 13, 12).reasons)
    assert "20.0 points" in reasons
    assert "n=100" in reasons
    assert "+0.100" in reasons


def test_few_images_are_said_to_be_few_also_when_none_changed():
    assert "n=1: 0.0 to 97.5" in judge(share(1.0, 1), 0.0, 4, 12).reasons[0]


def test_no_forecast_where_no_image_flipped_is_said():
    assert any("not forecast" in reason for reason in judge(share(1.0), 0.0, 4, None).reasons)
    assert any("beyond half" in reason for reason in judge(share(1.0), 0.0, 4, math.inf).reasons)


def test_flip_curve_finds_the_logistic_that_made_the_flips():
    rng = np.random.default_rng(0)
    log = rng.uniform(-4, 0, 20_000)
    flips = rng.random(log.size) < 1 / (1 + np.exp(-3.0 * (log + 1.5)))
    curve = FlipCurve()
    for part in np.array_split(np.arange(log.size), 7):
        curve.update(torch.from_numpy(10 ** log[part]), torch.from_numpy(flips[part]))
    found = curve.compute()
    assert found.middle == pytest.approx(-1.5, abs=0.05)
    assert found.slope == pytest.approx(3.0, rel=0.05)
    assert found.disagreement() == pytest.approx(flips.mean(), abs=0.005)
    assert found.disagreement(10.0) > found.disagreement() > found.disagreement(0.1) > found.disagreement(0.0) == 0


def test_a_probe_where_nothing_or_everything_changed_stays_finite():
    for changed in (False, True):
        curve = FlipCurve()
        curve.update(torch.full((50,), 0.01), torch.full((50,), changed))
        found = curve.compute()
        assert math.isfinite(found.middle)
        assert (found.disagreement() > 0.5) == changed


def test_no_images_no_curve():
    with pytest.raises(ValueError, match="no images"):
        FlipCurve().compute()


@pytest.mark.parametrize("feedback", ["network", "reduction"])
def test_prediction_solves_the_model_it_is_made_of(feedback):
    """With a sharp tolerance at about twice the probe's distortion, r_crit is the first r that doubles it."""
    channel, probe = Channel(0.001, 0.01), Schedule.parse(8)
    sharp = Tolerance(middle=math.log10(2.05), slope=1e4, distances=(0.0,), weights=(1.0,))
    want = next(r for r in range(1, 98) if final(channel, r, feedback) > 2.05 * final(channel, 8, feedback))
    got = predict_critical_r(channel, sharp, probe, 12, 196, has_cls=True, feedback=feedback)
    assert got == want > 8


def final(channel, r, feedback):
    """The last block's distortion, written out; the probe's beta is 1 + 0.01 * 8 whatever r is, or it follows r."""
    left, delta, felt = 196, 0.0, 0
    for _ in range(12):
        delta += channel.seed * felt + channel.gain * (8 if feedback == "network" else felt) * delta
        felt = min(r, left // 2)
        left -= felt
    return delta


def test_growth_that_follows_r_collapses_sooner():
    channel, probe = Channel(0.001, 0.03), Schedule.parse(4)
    calm = Tolerance(middle=0.5, slope=20.0, distances=(0.0,), weights=(1.0,))
    network, reduction = (
        predict_critical_r(channel, calm, probe, 12, 196, has_cls=True, feedback=one)
        for one in ("network", "reduction")
    )
    assert reduction < network


def test_nothing_to_fear_is_none():
    calm = Tolerance(middle=9.0, slope=5.0, distances=(-5.0,), weights=(1.0,))
    assert predict_critical_r(Channel(0.001, 0.01), calm, Schedule.parse(8), 12, 196, has_cls=True) is None
    assert predict_critical_r(Channel(0.0, 0.0), calm, Schedule.parse(8), 12, 196, has_cls=False) is None


def test_a_cls_token_feels_reduction_one_block_late():
    assert steps_seen([1.0, 2.0, 3.0], has_cls=True) == [0.0, 1.0, 2.0]
    assert steps_seen([1.0, 2.0, 3.0], has_cls=False) == [1.0, 2.0, 3.0]
