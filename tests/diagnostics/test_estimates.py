"""Means over images, their intervals, and depth bands."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from catis.diagnostics.estimates import BlockMeans, Estimate, band_blocks, bands

VALUES = st.lists(st.floats(-1e3, 1e3) | st.just(math.nan), min_size=1, max_size=30)


@given(VALUES, st.integers(1, 7))
def test_mean_and_interval_are_scipys_over_defined_values(values, step):
    means = BlockMeans()
    for start in range(0, len(values), step):
        means.update("x", 0, torch.tensor(values[start : start + step], dtype=torch.float64))
    found, known = means["x"][0], [v for v in values if not math.isnan(v)]
    assert found.n == len(known)
    if not known:
        assert math.isnan(found.mean)
    elif len(known) == 1:
        assert found.mean == known[0]
        assert math.isnan(found.low)
    else:
        reach = stats.t.ppf(0.975, len(known) - 1) * np.std(known, ddof=1) / math.sqrt(len(known))
        np.testing.assert_allclose((found.mean, found.high - found.mean), (np.mean(known), reach), atol=1e-8)


def test_bands_of_twelve_are_the_papers():
    assert band_blocks(12) == {"shallow": [0, 1, 2], "middle": [4, 5, 6, 7], "deep": [9, 10, 11]}


@pytest.mark.parametrize("depth", range(1, 41))
def test_every_depth_has_its_bands_inside_it_and_in_order(depth):
    found = band_blocks(depth)
    assert all(0 <= block < depth for blocks in found.values() for block in blocks)
    assert found["shallow"][0] == 0
    assert found["deep"][-1] == depth - 1
    if depth >= 4:
        assert max(found["shallow"]) < min(found["middle"]) <= max(found["middle"]) < min(found["deep"])


def test_layers_without_a_value_are_left_out_of_a_band():
    nothing = Estimate(math.nan, math.nan, math.nan, 0)
    blocks = [Estimate(1.0, 0, 2, 3)] * 11 + [nothing]
    assert bands(blocks)["deep"] == 1.0
    assert math.isnan(bands([nothing] * 12)["all"])
