"""Perturbation energy: first order against autograd and Monte Carlo, the slope, the assumptions on known noise."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from catis.core.signals import activation
from catis.diagnostics.assumptions import measure_assumptions
from catis.diagnostics.consistency import key_cosine
from catis.diagnostics.perturbation import (
    energy_scaling,
    first_order_pair,
    first_order_unary,
    gradient_norms,
    perturbation_energy,
)


def tokens(n=9, d=5, seed=0):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@settings(max_examples=20, deadline=None)
@given(st.integers(3, 12), st.integers(2, 8), st.integers(0, 99))
def test_first_order_is_the_jacobian_of_autograd(n, d, seed):
    """V to first order is sigma^2 times the squared Jacobian, whatever path a token's influence takes."""
    z = tokens(n, d, seed) + 0.3
    upper = torch.triu_indices(n, n, offset=1).unbind()
    pair = torch.autograd.functional.jacobian(lambda x: key_cosine(x[None])[0][upper], z)
    unary = torch.autograd.functional.jacobian(lambda x: activation_out_of_place(x), z)
    assert first_order_pair(z, 0.1) == pytest.approx(0.01 * pair.square().sum().item(), rel=1e-8)
    assert first_order_unary(z, 0.1) == pytest.approx(0.01 * unary.square().sum().item(), rel=1e-8)


def activation_out_of_place(x):
    """s_nf written the plain way; catis' own squares in place, which autograd cannot follow."""
    u = (x - x.mean(0)) / x.var(0, correction=0).sqrt()
    return u.square().sum(1).sqrt()


def test_the_plain_s_nf_is_catis_own():
    z = tokens()
    torch.testing.assert_close(activation(z[None])[0], activation_out_of_place(z))


def test_direct_gradients_leave_out_the_population_path():
    z = tokens(400, 6)
    _, direct = gradient_norms(z)
    assert first_order_unary(z, 1.0) == pytest.approx(direct.sum().item(), rel=0.05)  # which is O(1/N)
    assert first_order_unary(z, 1.0) < direct.sum().item()


def test_monte_carlo_meets_first_order_for_small_noise_and_leaves_it_for_large():
    z = tokens(40, 24)
    small = perturbation_energy(z, 0.01, draws=200)
    assert small.pair == pytest.approx(small.pair_first_order, rel=0.05)
    assert small.unary == pytest.approx(small.unary_first_order, rel=0.05)
    large = perturbation_energy(z, 3.0, draws=50)
    assert large.pair < 0.5 * large.pair_first_order


def test_noise_to_signal_does_not_count_scores():
    """Twice the same tokens: V_pair quadruples, the noise to signal of a score stays what it was."""
    few, many = (perturbation_energy(tokens(n, 32, 3), 0.05, draws=50) for n in (64, 256))
    assert many.pair / few.pair == pytest.approx(16, rel=0.15)
    assert many.pair_noise_to_signal == pytest.approx(few.pair_noise_to_signal, rel=0.25)
    assert many.unary_noise_to_signal == pytest.approx(few.unary_noise_to_signal, rel=0.5)


def test_slope_on_gaussian_features_is_one_and_the_ratio_is_n_over_d():
    """The slope of the proposition comes out; its claim that both gradients are O(1/d) does not: s_nf's is O(1)."""
    width = 48
    found = energy_scaling(lambda n: tokens(n, width, n), (16, 32, 64, 128, 256), sigma=0.02, draws=24)
    assert found.low < 1.0 < found.high + 0.05
    assert found.slope == pytest.approx(found.first_order_slope, abs=0.05)
    last = found.energies[-1]
    assert last.pair / last.unary == pytest.approx(256 / width, rel=0.15)


def noisy(make, batch=6, n=50, d=12):
    z = torch.randn(batch, n, d, generator=torch.Generator().manual_seed(1))
    return measure_assumptions(z, z + make(torch.Generator().manual_seed(2), batch, n, d))


def test_assumptions_hold_on_noise_that_keeps_them():
    found = noisy(lambda g, b, n, d: torch.randn(b, n, d, generator=g))
    assert found.mean_share < 0.02
    assert abs(found.token_cosine) < 0.02
    assert found.isotropy == pytest.approx(found.isotropy_expected, rel=0.1)


def test_each_broken_assumption_shows_in_its_own_number():
    shifted = noisy(lambda g, b, n, d: torch.randn(b, n, d, generator=g) + 1)
    assert shifted.mean_share == pytest.approx(0.5, abs=0.1)
    narrow = noisy(lambda g, b, n, d: torch.randn(b, n, d, generator=g) * (torch.arange(d) < 2))
    assert narrow.isotropy == pytest.approx(2 / 12, rel=0.1)
    together = noisy(lambda g, b, n, d: torch.randn(b, 1, d, generator=g).expand(b, n, d))
    assert together.token_cosine == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("bad", [torch.zeros(1, 4), torch.zeros(3), torch.tensor([[1.0, torch.nan], [0.0, 1.0]])])
def test_features_that_are_none_are_refused(bad):
    with pytest.raises(ValueError, match="expected finite"):
        perturbation_energy(bad, 0.1)


def test_constant_dimensions_carry_no_energy():
    z = tokens(10, 4)
    padded = torch.cat([z, torch.full((10, 1), 2.0, dtype=torch.float64)], 1)
    assert first_order_unary(padded, 0.1) == pytest.approx(first_order_unary(z, 0.1))
