"""Ranks and Spearman against scipy, with ties, masks, constants, NaN and every small size."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from catis.diagnostics.ranks import _sort, average_ranks, spearman

FLOATS = st.floats(-100, 100, width=32)
TIED = st.integers(-3, 3).map(float)


def rows(elements, dtype=np.float32):
    return hnp.arrays(dtype, st.tuples(st.integers(1, 4), st.integers(1, 40)), elements=elements)


@given(rows(TIED | FLOATS))
def test_ranks_are_scipys(values):
    got = average_ranks(torch.from_numpy(values))
    np.testing.assert_array_equal(got.numpy(), stats.rankdata(values, axis=1))


@given(rows(TIED, np.float64))
def test_ranks_of_float64_take_the_other_path(values):
    np.testing.assert_array_equal(average_ranks(torch.from_numpy(values)).numpy(), stats.rankdata(values, axis=1))


@given(rows(TIED | FLOATS), st.data())
def test_ranks_within_a_mask_are_those_of_the_subset(values, data):
    mask = data.draw(hnp.arrays(np.bool_, values.shape))
    got = average_ranks(torch.from_numpy(values), torch.from_numpy(mask)).numpy()
    for row, keep, ranks in zip(values, mask, got, strict=True):
        np.testing.assert_array_equal(ranks[keep], stats.rankdata(row[keep]))
        assert (ranks[~keep] == 0).all()


def reference(a, b):
    """scipy's own Spearman; its warning about constant rows is the NaN we want."""
    with np.errstate(all="ignore"):
        return stats.pearsonr(stats.rankdata(a), stats.rankdata(b)).statistic if np.ptp(a) and np.ptp(b) else np.nan


@given(st.data(), st.integers(1, 4), st.integers(1, 40))
def test_spearman_is_scipys(data, batch, size):
    a, b = (data.draw(hnp.arrays(np.float32, (batch, size), elements=TIED | FLOATS)) for _ in range(2))
    got = spearman(torch.from_numpy(a), torch.from_numpy(b)).numpy()
    for row in range(batch):
        constant = np.ptp(a[row]) == 0 or np.ptp(b[row]) == 0
        want = np.nan if constant else stats.spearmanr(a[row], b[row]).statistic
        np.testing.assert_allclose(got[row], want, atol=1e-12)


@given(st.data(), st.integers(2, 30))
def test_spearman_within_a_mask(data, size):
    a, b = (data.draw(hnp.arrays(np.float32, (1, size), elements=TIED)) for _ in range(2))
    mask = data.draw(hnp.arrays(np.bool_, (1, size)))
    got = spearman(*map(torch.from_numpy, (a, b, mask))).item()
    np.testing.assert_allclose(got, reference(a[mask], b[mask]) if mask.sum() > 1 else np.nan, atol=1e-12)


def test_large_tied_case_against_scipy():
    rng = np.random.default_rng(0)
    a = rng.normal(size=(2, 19110)).round(3).astype(np.float32)
    b = (a + rng.normal(size=a.shape)).round(2).astype(np.float32)
    want = [stats.spearmanr(x, y).statistic for x, y in zip(a, b, strict=True)]
    np.testing.assert_allclose(spearman(torch.from_numpy(a), torch.from_numpy(b)).numpy(), want, atol=1e-12)


def test_nan_makes_its_own_row_undefined_and_no_other():
    a = torch.tensor([[1.0, 2.0, torch.nan], [1.0, 2.0, 3.0]])
    rho = spearman(a, torch.tensor([[1.0, 2.0, 3.0]] * 2))
    assert rho.isnan().tolist() == [True, False]
    assert rho[1] == 1


def test_nan_outside_the_mask_does_not_matter():
    a = torch.tensor([[1.0, 2.0, torch.nan]])
    assert spearman(a, a, torch.tensor([[True, True, False]])).item() == 1


def test_both_zeros_are_one_value_and_infinities_sort_at_the_ends():
    values = torch.tensor([[0.0, -0.0, torch.inf, -torch.inf, -1.0]])
    assert average_ranks(values).tolist() == [[3.5, 3.5, 5.0, 1.0, 2.0]]


@settings(max_examples=30)
@given(rows(FLOATS))
def test_packed_sort_orders_as_torch_does(values):
    tensor = torch.from_numpy(values)
    _, order = _sort(tensor)
    assert torch.equal(tensor.gather(1, order) + 0.0, (tensor + 0.0).sort(1).values)


def test_shapes_that_do_not_match_are_refused():
    with pytest.raises(ValueError, match="expected two equal"):
        spearman(torch.zeros(2, 3), torch.zeros(3, 2))
