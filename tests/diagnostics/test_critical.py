"""r_crit by bisection against a plain scan, its law over depth, and convexity."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from catis.diagnostics.critical import find_critical_r, fit_depth
from catis.diagnostics.pareto import check_convexity


@given(st.lists(st.integers(0, 100), min_size=1, max_size=60), st.integers(0, 30))
def test_bisection_finds_what_a_scan_finds(drops, allowed):
    """Scores that fall with r, in hundredths: exactly `allowed` lost is not more than allowed."""
    losses = np.sort(drops)
    found = find_critical_r(lambda r: 1 - losses[r - 1] / 100, len(losses), drop=allowed / 100)
    scan = next((r for r in range(1, len(losses) + 1) if losses[r - 1] > allowed), None)
    assert found.r == scan
    assert found.monotone
    assert len(found.scores) <= 2 + math.ceil(math.log2(len(losses) + 1))


def test_accuracy_counts_from_the_vanilla_accuracy():
    assert find_critical_r(lambda r: 0.8 - 0.01 * r, 20, vanilla=0.8).r == 6


def test_scores_that_do_not_fall_are_reported():
    assert not find_critical_r({1: 0.2, 2: 0.9, 4: 0.1, 8: 0.1}.__getitem__, 8).monotone


def test_fit_over_depth_is_least_squares_through_the_origin():
    depths, r = [6, 12, 12, 24, 40], [28.0, 15.0, 13.0, 8.0, 4.0]
    fit = fit_depth(depths, r)
    x = 1 / np.array(depths)
    slope, residuals, *_ = np.linalg.lstsq(x[:, None], np.array(r), rcond=None)
    assert fit.slope == pytest.approx(slope[0])
    error = math.sqrt(residuals[0] / 4 / (x @ x))
    assert fit.high - fit.slope == pytest.approx(stats.t.ppf(0.975, 4) * error)
    line = stats.linregress(x, r)
    assert (fit.free_slope, fit.intercept) == (pytest.approx(line.slope), pytest.approx(line.intercept))
    assert fit.free_r_squared == pytest.approx(line.rvalue**2)
    assert fit.n == 5


def test_a_law_that_does_not_hold_has_a_low_r_squared():
    assert fit_depth([6, 12, 24], [10.0, 10.0, 11.0]).r_squared < 0


def test_models_of_one_depth_have_no_line():
    assert math.isnan(fit_depth([12, 12], [13.0, 15.0]).free_slope)
    with pytest.raises(ValueError, match="one r_crit for each"):
        fit_depth([], [])


@given(st.integers(3, 12))
def test_convex_curves_pass_and_concave_ones_name_every_inner_point(size):
    x = list(range(size))
    assert check_convexity(x, [(i / size) ** 3 for i in x]).convex
    bent = check_convexity(x, [(i / size) ** 0.5 for i in x])
    assert [violation.at for violation in bent.violations] == x[1:-1]


def test_a_straight_line_is_convex_and_so_is_one_with_a_violation_within_noise():
    assert check_convexity([0, 1, 2], [0.0, 0.1, 0.2]).convex
    points = [0, 4, 8], [0.10, 0.16, 0.20]
    assert not check_convexity(*points).convex
    assert check_convexity(*points, n=100).convex
    assert not check_convexity(*points, n=100_000).convex


def test_sigmas_are_those_of_simulated_sampling():
    """The gap to the chord, sampled many times, must have the standard error that the test divides by."""
    rng = np.random.default_rng(0)
    x, loss, n = [0, 4, 12], [0.05, 0.4, 0.5], 400
    gaps = []
    for _ in range(4000):
        a, b, c = rng.binomial(n, loss) / n
        gaps.append(b - (2 / 3 * a + 1 / 3 * c))
    (violation,) = check_convexity(x, loss, n=n).violations
    assert violation.sigmas == pytest.approx((violation.loss - violation.chord) / np.std(gaps), rel=0.05)


@pytest.mark.parametrize(("x", "loss"), [([0, 1], [0, 1]), ([0, 2, 1], [0, 1, 2]), ([0, 1, 2], [0, 1])])
def test_curves_that_are_none_are_refused(x, loss):
    with pytest.raises(ValueError, match="expected"):
        check_convexity(x, loss)
