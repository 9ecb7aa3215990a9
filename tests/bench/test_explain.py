"""Reasons come from timings: each cause is told when the timings show it, and only then."""

from dataclasses import replace

import pytest

from catis.bench.explain import Evidence, explain, lost_time
from catis.bench.phases import Phases

SLOW = Evidence(
    batch_size=1,
    vanilla=0.020,
    reduced=0.019,
    mac_ratio=1.7,
    speedup=1.05,
    spread=(1.04, 1.06),
    roofline_vanilla=0.012,
    roofline_reduced=0.0072,
    phases=Phases(choose=0.005, merge=0.001),
    larger=(1, 0.020),
)
FINE = replace(SLOW, reduced=0.012, speedup=1.66, phases=Phases(choose=0.0002, merge=0.0001))


def told(found: Evidence) -> str:
    return " ".join(explain(found))


def test_nothing_to_say_of_a_fast_row():
    assert explain(FINE) == []


def test_parts_add_up_to_the_time_lost():
    for found in (SLOW, FINE, replace(SLOW, phases=None), replace(SLOW, roofline_vanilla=None)):
        assert sum(lost_time(found).values()) == pytest.approx(found.reduced - found.vanilla / found.mac_ratio)


def test_the_largest_part_is_named():
    assert "most of the time lost goes to choosing tokens" in told(SLOW)
    assert "goes to merging tokens" in told(replace(SLOW, phases=Phases(choose=0.001, merge=0.005)))
    assert "goes to the size bias" in told(replace(SLOW, phases=Phases(bias=0.006)))
    assert "goes to the matrix products" in told(replace(SLOW, roofline_reduced=0.0115, phases=Phases(choose=0.001)))
    assert "goes to the rest" in told(replace(SLOW, phases=Phases(choose=0.001)))


def test_no_cause_is_named_that_was_not_timed():
    blind = replace(SLOW, roofline_vanilla=None, roofline_reduced=None, phases=None)
    assert explain(blind) == ["slower than the multiply-adds promise; why is not known, as no part was timed"]
    compiled = told(replace(SLOW, phases=None))  # products are timed, what choosing takes is not
    assert "goes to what is not matrix products: choosing, merging, norms" in compiled


def test_slower_than_vanilla_is_said_so():
    assert "slower than the multiply-adds promise" in told(SLOW)
    assert "slower than vanilla" in told(replace(SLOW, reduced=0.025, speedup=0.8))


def test_batch_too_small_needs_a_larger_batch_that_is_cheaper_per_image():
    assert "batch too small" not in told(SLOW)
    assert "20.0 ms an image at batch 1, 5.0 at 8" in told(replace(SLOW, larger=(8, 0.040)))
    assert "batch too small" not in told(replace(SLOW, larger=(8, 0.150)))
    assert "batch too small" not in told(replace(SLOW, batch_size=8, larger=(8, 0.020)))


def test_overhead_bound_needs_a_pass_that_is_mostly_not_products():
    assert "overhead-bound" not in told(SLOW)
    found = replace(SLOW, roofline_vanilla=0.008, roofline_reduced=0.005)
    assert "matrix products are only 40% of vanilla's pass" in told(found)
    assert "overhead-bound" not in told(replace(found, larger=(8, 0.040)))  # the batch says it better


def test_unfused_attention():
    assert "attention is not fused" not in told(SLOW)
    found = told(replace(SLOW, phases=Phases(choose=0.001, unfused=0.004)))
    assert "attention is not fused" in found
    assert "4.0 ms more" in found


def test_the_whole_attention_map():
    assert "attention map" not in told(SLOW)
    found = told(replace(SLOW, phases=Phases(choose=0.005, attention_map=0.003)))
    assert "3.0 ms of the 5.0 that choosing takes" in found


def test_data_bound():
    assert "data-bound" not in told(replace(FINE, reading=0.010))
    assert "at most 1.25" in told(replace(FINE, reading=0.016))
    assert "at most 1.00" in told(replace(FINE, reading=0.040))


def test_unsteady_rounds():
    assert "unsteady" not in told(SLOW)
    assert "unsteady" in told(replace(SLOW, spread=(0.8, 1.3)))


def test_too_good_is_flagged_with_what_the_products_say():
    good = replace(FINE, speedup=2.0, reduced=0.010)
    assert good.efficiency == pytest.approx(2.0 / 1.7)
    assert "above 1.1" in told(good)
    assert "only 1.67 times as fast" in told(good)
    assert "fit the caches better" in told(replace(good, roofline_reduced=0.006))
    assert "vanilla's attention is not fused" in told(replace(good, phases=Phases(unfused=0.001)))
    assert "time vanilla again" in told(replace(good, roofline_vanilla=None))
    assert "above 1.1" not in told(replace(good, speedup=1.1 * 1.7))
