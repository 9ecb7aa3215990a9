"""The recurrence against its closed form, and fits that must find what made the data, or say that it is straight."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catis.diagnostics.amplifier import Channel, closed_form, recurrence
from catis.diagnostics.amplifier_fit import fit_amplifier, jackknife_beta
from catis.diagnostics.dual_fit import fit_dual

SEEDS, GAINS, AMOUNTS = st.floats(1e-6, 1.0), st.floats(0, 0.2), st.integers(0, 23)


@given(SEEDS, GAINS, AMOUNTS, st.integers(1, 40))
def test_closed_form_is_the_recurrence_to_1e_12(seed, gain, r, depth):
    channel = Channel(seed, gain)
    path = recurrence([channel], [[r] * depth])
    np.testing.assert_allclose(closed_form([channel], [r], range(depth + 1)), path, rtol=1e-12, atol=0)


@given(SEEDS, GAINS, AMOUNTS, SEEDS, GAINS, AMOUNTS, st.integers(1, 40))
def test_dual_closed_form_is_the_dual_recurrence_to_1e_12(seed, gain, r, seed_2, gain_2, r_2, depth):
    channels = [Channel(seed, gain), Channel(seed_2, gain_2)]
    path = recurrence(channels, [[r] * depth, [r_2] * depth])
    np.testing.assert_allclose(closed_form(channels, [r, r_2], range(depth + 1)), path, rtol=1e-12, atol=0)


@given(st.floats(1e-3, 1.0), st.floats(1e-3, 1.0), st.floats(1e-3, 0.5), st.integers(1, 20), st.integers(1, 30))
def test_is_the_papers_formula(epsilon_0, alpha, delta, r, depth):
    channel = Channel(epsilon_0 * delta, alpha * delta)
    beta = 1 + alpha * r * delta
    want = epsilon_0 / alpha * (beta**depth - 1)
    assert channel.ratio == pytest.approx(epsilon_0 / alpha)
    assert channel.beta(r) == pytest.approx(beta)
    assert recurrence([channel], [[r] * depth])[-1] == pytest.approx(want, rel=1e-9)


def test_two_equal_channels_are_one_with_both_amounts():
    one = recurrence([Channel(0.01, 0.02)], [[9] * 8])
    two = recurrence([Channel(0.01, 0.02)] * 2, [[4] * 8, [5] * 8])
    np.testing.assert_allclose(one, two, rtol=1e-12)


def test_channels_and_amounts_must_match():
    with pytest.raises(ValueError, match="expected one list for each"):
        recurrence([Channel(1, 1)], [[1], [1]])
    with pytest.raises(ValueError, match="positive base"):
        closed_form([Channel(1, -1)], [2], [1])


@settings(max_examples=40)
@given(st.floats(1e-5, 1e-2), st.floats(-0.03, 0.1).filter(lambda g: abs(g) > 1e-3), st.integers(4, 16))
def test_a_fit_finds_what_made_the_path(seed, gain, r):
    path = recurrence([Channel(seed, gain)], [[r] * 12])[1:]
    fit = fit_amplifier(path, [r] * 12)
    assert fit.channel.seed == pytest.approx(seed, rel=1e-4)
    assert fit.channel.gain == pytest.approx(gain, rel=1e-4)
    assert fit.r_squared > 1 - 1e-9
    assert fit.growth == ("super-linear" if gain > 0 else "sub-linear")
    assert fit.aic < fit.linear_aic


def test_a_fit_with_amounts_that_change_over_depth():
    steps = [13, 13, 10, 8, 5, 5, 2, 2, 1, 1]
    path = recurrence([Channel(0.003, 0.05)], [steps])[1:]
    fit = fit_amplifier(path, steps)
    assert (fit.channel.seed, fit.channel.gain) == (pytest.approx(0.003, rel=1e-4), pytest.approx(0.05, rel=1e-4))
    assert fit.beta == pytest.approx(1 + 0.05 * np.mean(steps), rel=1e-4)


def test_straight_growth_with_noise_is_called_linear():
    """Over many noisy straight paths the test must call about 5 % of them something else, not all and not none."""
    rng = np.random.default_rng(0)
    called = [
        fit_amplifier(0.01 * np.arange(1, 13) + rng.normal(0, 0.004, 12), [8] * 12).growth != "linear"
        for _ in range(300)
    ]
    assert 0.01 < np.mean(called) < 0.10


def test_an_interval_over_images_that_holds_one_overrules_the_test():
    fit = fit_amplifier(recurrence([Channel(0.002, 0.03)], [[8] * 12])[1:], [8] * 12)
    wide = type(fit)(**{**fit.__dict__, "beta_low": 0.9, "beta_high": 1.6})
    assert (fit.growth, wide.growth) == ("super-linear", "linear")


def test_jackknife_is_that_of_the_mean_for_a_statistic_that_is_linear():
    """With beta the same in every group the interval is a point; with spread it has width around the estimate."""
    steps = [8] * 12
    same = np.stack([recurrence([Channel(s, 0.03)], [steps])[1:] for s in (0.001, 0.002, 0.003)])
    fit = fit_amplifier(same[0], steps)
    low, high = jackknife_beta(fit, same, steps)
    assert high - low < 1e-5
    spread = np.stack([recurrence([Channel(0.002, g)], [steps])[1:] for g in (0.02, 0.03, 0.04)])
    low, high = jackknife_beta(fit, spread, steps)
    betas = 1 + 8 * np.array([0.02, 0.03, 0.04])
    reach = 4.302652729911275 * math.sqrt(2 / 3 * ((betas - betas.mean()) ** 2).sum())
    assert high - fit.beta == pytest.approx(reach, rel=1e-3)


def test_dual_fit_finds_both_channels():
    merged, evicted = [7] * 11, [6, 6, 6, 5, 5, 5, 4, 4, 3, 3, 3]
    merge, evict = Channel(0.002, 0.02), Channel(0.001, 0.01)
    paths = [
        recurrence([merge, evict], [merged, evicted])[1:],
        recurrence([merge], [merged])[1:],
        recurrence([evict], [evicted])[1:],
    ]
    fit = fit_dual(*paths, merged, evicted)
    assert fit.merge.seed == pytest.approx(0.002, rel=1e-3)
    assert fit.evict.gain == pytest.approx(0.01, rel=1e-2)
    assert min(fit.r_squared.values()) > 1 - 1e-6
    assert fit.additive_r_squared > 1 - 1e-6


def test_channels_that_do_not_add_up_show():
    """A network that amplifies by itself gives each channel the same beta, which Eq. dual-channel counts twice."""
    path = 1e-4 * (1.7 ** np.arange(1, 12) - 1)
    fit = fit_dual(2 * path, path, path, [6] * 11, [6] * 11)
    assert fit.additive_r_squared < 0


@pytest.mark.parametrize(("path", "steps"), [([0.1, 0.2], [1, 1]), ([0.1] * 4, [0] * 4), ([0.1, math.nan, 1], [1] * 3)])
def test_what_cannot_be_fitted_is_refused(path, steps):
    with pytest.raises(ValueError, match="expected"):
        fit_amplifier(path, steps)
