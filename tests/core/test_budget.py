"""Tokens kept per block at a limit: below it by less than one token, at most half removed, shapes kept."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catis.core.budget import fit_shape, removed_from, scale_to_budget


def vit_cost(kept, num_patches=196, width=192):
    total, entering = 0, num_patches
    for leaving in kept:
        total += (entering + 1) * 4 * width**2 + 2 * (entering + 1) ** 2 * width + (leaving + 1) * 8 * width**2
        entering = leaving
    return total


VANILLA = vit_cost([196] * 12)
ONE_TOKEN = max(vit_cost([196] * 12) - vit_cost([*[196] * block, *[195] * (12 - block)]) for block in range(12))


@given(
    budget=st.floats(0.4, 0.99),
    shape=st.lists(st.floats(0.5, 3.0), min_size=1, max_size=7),
    last=st.booleans(),
)
def test_the_limit_is_met_to_one_token(budget, shape, last):
    kept = fit_shape(vit_cost, budget * VANILLA, 196, 12, shape, last=last)
    cost = vit_cost(kept)
    assert cost <= budget * VANILLA < cost + ONE_TOKEN
    counts = [196, *kept]
    assert all(now <= before <= 2 * now for before, now in pairwise(counts))
    if not last:
        assert kept[-1] == kept[-2]


@given(budget=st.floats(0.5, 0.99), depth=st.sampled_from([12, 16, 24]), last=st.booleans())
def test_from_half_on_four_blocks_meet_the_limit_to_one_token(budget, depth, last):
    limit = budget * vit_cost([196] * depth)
    kept = fit_shape(vit_cost, limit, 196, depth, last=last)
    assert vit_cost(kept) <= limit < vit_cost(kept) + ONE_TOKEN
    assert sum(removed > 0 for removed in removed_from(196, kept)) <= 4
    assert all(now <= before <= 2 * now for before, now in pairwise([196, *kept]))


@pytest.mark.parametrize(("budget", "depth"), [(0.49, 12), (0.6, 6)])
def test_below_half_and_in_short_models_every_block_but_the_last_removes_some(budget, depth):
    kept = fit_shape(vit_cost, budget * vit_cost([196] * depth), 196, depth, last=False)
    assert all(removed_from(196, kept)[:-1])


def test_a_shape_of_zero_removes_nothing_there():
    kept = fit_shape(vit_cost, 0.6 * VANILLA, 196, 12, [0, 0, 1, 1])
    assert kept[:4] == [196] * 4
    assert kept[-1] < 100


def test_an_explicit_list_is_scaled():
    wanted = [190, 150, 100, 100, 100, 100, 60, 60, 60, 60, 60, 60]
    kept = scale_to_budget(vit_cost, 0.5 * VANILLA, 196, wanted)
    assert vit_cost(kept) <= 0.5 * VANILLA
    assert kept[3] - kept[5] <= 1  # where nothing was removed, nothing is, but for the last token spent
    assert kept[1] - kept[2] > 20


def test_what_nobody_can_reach_is_said():
    with pytest.raises(ValueError, match="cannot be reached: the most that can be removed leaves"):
        fit_shape(vit_cost, 0.01 * VANILLA, 196, 12)


def test_a_budget_above_vanilla_removes_nothing():
    assert removed_from(196, fit_shape(vit_cost, 2 * VANILLA, 196, 12)) == [0] * 12
