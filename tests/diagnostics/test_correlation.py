"""rho_off against numpy's corrcoef, its blocks, and its chance level against simulation."""

import math
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from catis.diagnostics import correlation
from catis.diagnostics.correlation import OffDiagonal, chance_level, matched_level, off_diagonal
from catis.errors import MissingExtraError


def reference(x):
    """Mean |r| over pairs of the dimensions that vary, by numpy."""
    varying = x[:, np.ptp(x, axis=0) > 0]
    if varying.shape[1] < 2:
        return np.nan
    matrix = np.abs(np.corrcoef(varying.T))
    return matrix[~np.eye(len(matrix), dtype=bool)].mean()


@settings(max_examples=40)
@given(st.integers(2, 30), st.integers(2, 20), st.integers(1, 3), st.integers(0, 999))
def test_is_numpys(tokens, dims, batch, seed):
    x = np.random.default_rng(seed).normal(size=(batch, tokens, dims))
    got = off_diagonal(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(got, [reference(image) for image in x], rtol=1e-9)


@pytest.mark.parametrize("block", [1, 7, 40, 1 << 24])
def test_blocks_do_not_change_the_value(monkeypatch, block):
    x = np.random.default_rng(0).normal(size=(2, 9, 13))
    monkeypatch.setattr(correlation, "_BLOCK", block)
    np.testing.assert_allclose(off_diagonal(torch.from_numpy(x)), [reference(image) for image in x], rtol=1e-9)


def test_constant_dimensions_are_left_out_also_with_rounding_noise():
    x = np.random.default_rng(0).normal(size=(1, 20, 4)).astype(np.float32)
    x[:, :, 1] = 3.0
    x[:, :, 2] = 1e4 + 1e-4 * np.arange(20)  # below float32's resolution at 1e4
    np.testing.assert_allclose(off_diagonal(torch.from_numpy(x)), [reference(x[0][:, [0, 3]])], rtol=1e-5)


def test_two_tokens_correlate_perfectly_and_one_not_at_all():
    x = torch.randn(1, 2, 6)
    torch.testing.assert_close(off_diagonal(x), torch.ones(1))
    assert off_diagonal(x[:, :1]).isnan().all()
    assert off_diagonal(torch.ones(1, 5, 3)).isnan().all()


def test_nan_shows():
    x = torch.randn(2, 8, 4)
    x[0, 0, 0] = torch.nan
    assert off_diagonal(x).isnan().tolist() == [True, False]


@pytest.mark.parametrize("tokens", [2, 3, 5, 20, 196])
def test_chance_level_is_what_independent_tokens_show(tokens):
    x = torch.randn(20, tokens, 200, generator=torch.Generator().manual_seed(tokens))
    assert off_diagonal(x).mean().item() == pytest.approx(chance_level(tokens), rel=0.01)


def test_chance_level_tends_to_the_normal_approximation():
    assert chance_level(10_000) == pytest.approx(math.sqrt(2 / (math.pi * 9_999)), rel=1e-4)
    assert math.isnan(chance_level(1))


@pytest.mark.parametrize("kept", [120, 40, 16, 9])
def test_matched_level_is_what_a_random_part_of_the_tokens_shows(kept):
    """Correlated features, a random subset of their tokens: nothing happened to them, and the level must say so."""
    generator = torch.Generator().manual_seed(0)
    mix = torch.randn(64, 64, generator=generator) / 8 + 0.5 * torch.eye(64)
    x = torch.randn(60, 196, 64, generator=generator) @ mix
    whole, part = off_diagonal(x).mean().item(), off_diagonal(x[:, :kept]).mean().item()
    assert matched_level(whole, 196, kept) == pytest.approx(part, rel=0.06)
    assert part - chance_level(kept) < 0.9 * (whole - chance_level(196))  # which the plain excess does not


def test_wide_features_never_hold_a_square_per_image(monkeypatch):
    largest = []
    upper = correlation._upper_sum

    def spy(block):
        largest.append(block.numel())
        return upper(block)

    monkeypatch.setattr(correlation, "_upper_sum", spy)
    x = torch.randn(4, 3, 4096)
    value = off_diagonal(x)
    assert max(largest) <= correlation._BLOCK < x.shape[0] * 4096 * 4096
    assert value[0].item() == pytest.approx(reference(x[0].double().numpy()), rel=1e-4)


def test_accumulator_reports_value_chance_and_excess():
    metric = OffDiagonal()
    x = torch.randn(6, 10, 8)
    metric.update(0, x[:2])
    metric.update(0, x[2:])
    found = {name: values[0].mean for name, values in metric.compute().items()}
    assert found["rho_off"] == pytest.approx(off_diagonal(x).mean().item())
    assert found["excess"] == pytest.approx(found["rho_off"] - chance_level(10))
    assert found["tokens"] == 10


def test_plot_without_matplotlib_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    metric = OffDiagonal()
    metric.update(0, torch.randn(2, 5, 3))
    with pytest.raises(MissingExtraError, match=r"pip install 'catis\[plots\]'"):
        metric.plot()
