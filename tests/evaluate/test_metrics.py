"""Shares, intervals, means and differences, against scipy and by hand."""

import numpy as np
import pytest
from scipy import stats

from catis.diagnostics.estimates import wilson
from catis.evaluate.metrics import agreement, compare, mean_corrupted_accuracy, shift_average
from catis.runs import Predictions
from tests.runs.records import record


@pytest.mark.parametrize(("hits", "n"), [(0, 10), (10, 10), (811, 1000), (1, 3), (49999, 50000)])
def test_wilson_is_scipys(hits, n):
    theirs = stats.binomtest(hits, n).proportion_ci(method="wilson")
    assert wilson(hits, n) == pytest.approx((100 * theirs.low, 100 * theirs.high), abs=1e-9)


def said(correct, names=None):
    correct = np.asarray(correct)
    labels = np.zeros(len(correct), np.int64)
    top = np.stack([1 - correct, correct], 1).astype(np.int64)
    names = names or [f"{i}" for i in range(len(correct))]
    return Predictions(names, labels, top, labels.astype(np.float32), labels.astype(np.float32))


def test_mcnemar_and_the_difference_by_hand():
    one, other = np.ones(40, int), np.ones(40, int)
    one[:2], other[2:11] = 0, 0  # 9 gained, 2 lost
    found = compare(said(one), said(other))
    assert (found.n, found.gained, found.lost, found.points) == (40, 9, 2, 17.5)
    # Two-sided exact test: 2 * P(at most 2 of 11) with even odds.
    assert found.p_value == pytest.approx(2 * (1 + 11 + 55) / 2**11)
    back = compare(said(other), said(one))
    assert (back.points, back.p_value) == (-found.points, found.p_value)


def test_the_bootstrap_is_that_of_the_images():
    rng = np.random.default_rng(0)
    one, other = rng.random(500) < 0.8, rng.random(500) < 0.7
    found = compare(said(one.astype(int)), said(other.astype(int)))
    difference = one.astype(float) - other
    slow = [100 * rng.choice(difference, 500).mean() for _ in range(4000)]
    assert (found.low, found.high) == pytest.approx(np.percentile(slow, [2.5, 97.5]), abs=0.5)
    assert found.low < found.points < found.high
    assert compare(said(one.astype(int)), said(other.astype(int))) == found


def test_equal_runs_do_not_differ():
    found = compare(said([1, 0, 1]), said([1, 0, 1]))
    assert (found.points, found.low, found.high, found.p_value) == (0, 0, 0, 1)


def test_images_are_matched_by_name():
    one, other = said([1, 0, 1], ["a", "b", "c"]), said([1, 1], ["c", "b"])
    found = compare(one, other)
    assert (found.n, found.gained, found.lost) == (2, 0, 1)
    assert agreement(one, other) == (50.0, 2)
    with pytest.raises(ValueError, match="no image in common"):
        compare(one, said([1], ["z"]))


def test_other_labels_are_not_compared():
    other = said([1])
    other.labels[0] = 1
    with pytest.raises(ValueError, match="different labels"):
        compare(said([1]), other)


def test_shift_average_needs_all_three():
    three = [record(data=f"imagenet-{name}", top1=top1) for name, top1 in (("a", 10), ("r", 20), ("sketch", 60))]
    assert shift_average([*three, record(data="imagenet", top1=99)]) == 30
    assert shift_average(three[:2]) is None
    assert shift_average([*three[:2], record(data="imagenet-sketch", corruption="fog", severity=1)]) is None


def test_mca_is_the_mean_over_cells_and_says_how_many():
    cells = [record(corruption="fog", severity=level, top1=10 * level) for level in (1, 2, 3)]
    assert mean_corrupted_accuracy([*cells, record(top1=99)]) == {"set": (20.0, 3)}
