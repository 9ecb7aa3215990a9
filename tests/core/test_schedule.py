"""Every spelling of r, and every one that must be refused."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catis.core.amounts import capped
from catis.core.schedule import Schedule


@pytest.mark.parametrize(
    ("r", "depth", "amounts"),
    [(0, 2, (0, 0)), (5, 3, (5, 5, 5)), (np.int64(5), 2, (5, 5)), (5.0, 2, (5, 5)), ([1, 2], 2, (1, 2))],
)
def test_counts(r, depth, amounts):
    assert [Schedule.parse(r).bound(depth).amount(block, 99) for block in range(depth)] == list(amounts)


@pytest.mark.parametrize(
    ("shape", "amounts"), [("constant", (8, 8, 8)), ("decreasing", (16, 8, 0)), ("increasing", (0, 8, 16))]
)
def test_shapes(shape, amounts):
    assert Schedule.parse(8, shape).token_counts(3, 64) == list(64 - np.cumsum(amounts))


def test_one_block_with_inflect_does_not_divide_by_zero():
    assert Schedule.parse((8, -1.0)).bound(1) == Schedule(8)


BAD = [
    (-3, "negative"),
    (True, "bool"),
    ("8", "str"),
    (7.5, "neither a whole number"),
    (float("nan"), "not finite"),
    (float("inf"), "not finite"),
    (None, "say how many"),
    ((8, 2.0), r"outside \[-1, 1\]"),
    ((8, -1.5), r"outside \[-1, 1\]"),
    ((8, "x"), r"outside \[-1, 1\]"),
    ((8, float("nan")), r"outside \[-1, 1\]"),
    ((-8, 0.5), "negative"),
    ([1, 2], "2 entries for 3 blocks"),
    ([1, -2, 3], "negative"),
    ([1, True, 3], "bool"),
    ([1, 0.5, 3], "neither a whole number"),
    ((1, 2, 3), "tuple"),
    ({"r": 3}, "dict"),
    (b"8", "bytes"),
]


@pytest.mark.parametrize(("r", "why"), BAD, ids=lambda value: repr(value))
def test_refused(r, why):
    with pytest.raises(ValueError, match=why) as error:
        Schedule.parse(r).bound(3)
    assert "expected an int >= 0" in str(error.value)


def test_refused_shapes():
    with pytest.raises(ValueError, match="constant"):
        Schedule.parse(8, "up")
    with pytest.raises(ValueError, match="already says how it is spread"):
        Schedule.parse([8, 8, 8], "decreasing")
    with pytest.raises(ValueError, match="depends on the depth"):
        Schedule.parse((8, -1)).amount(0, 64)


def test_paper_token_counts():
    """SPEC 8: DeiT-3-B at r=23; ViT-L at r=11 ends with one patch token; VideoMAE-B at 160 from block 3 ends at 144."""
    assert Schedule.parse(23).token_counts(12, 196) == [173, 150, 127, 104, 81, 58, 35, 18, 9, 5, 3, 2]
    assert Schedule.parse(11).token_counts(24, 196)[-1] == 1
    assert Schedule.parse([0, 0, 0] + [160] * 9).token_counts(12, 1568)[-1] == 144


@given(r=st.integers(0, 500), patches=st.integers(0, 400), depth=st.integers(1, 40))
def test_contract(r, patches, depth):
    counts = [patches, *Schedule.parse(r).token_counts(depth, patches)]
    for entering, leaving in itertools.pairwise(counts):
        assert entering - leaving == capped(r, entering) <= entering // 2


@given(fraction=st.floats(0.001, 0.999), patches=st.integers(1, 400))
def test_fraction_is_of_the_tokens_present(fraction, patches):
    schedule = Schedule.parse(fraction)
    first = schedule.token_counts(2, patches)[0]
    assert patches - first == min(int(fraction * patches), patches // 2)
    assert not schedule.is_vanilla


def test_frozen():
    with pytest.raises(AttributeError):
        Schedule.parse(3).r = 4
