"""Spend where rho_s is high: the shape follows pairwise rho_s and nothing else."""

import math

import pytest

from catis.core.budget import fit_shape
from catis.errors import CatisError
from catis.tuning.adaptive import adaptive_shape, shape_of


def test_weights_follow_rho_s(model, pair):
    found = adaptive_shape(model, *pair, batch_size=3)
    rho = [block.mean for block in found.pairwise]
    mean = sum(rho) / 6
    assert found.weights == pytest.approx([value / mean for value in rho])
    assert len(found.fused) == 6
    assert found.pairwise[0].n == 8
    assert all(0 < value < 1 for value in rho)
    kept = fit_shape(sum, 400, 144, 6, found.weights)
    assert sum(kept) == 400
    assert sorted(kept, reverse=True) == kept


def test_blocks_that_cannot_remove_or_tell_get_nothing():
    assert shape_of([0.8, 0.4, -0.2, math.nan]) == pytest.approx([8 / 3, 4 / 3, 0, 0])
    assert shape_of([0.8, 0.9, 0.4], windowed=[1]) == pytest.approx([4 / 3, 0, 2 / 3])
    with pytest.raises(CatisError, match=r"rho_s is -0.10, nan: no ranking survives"):
        shape_of([-0.1, math.nan])
