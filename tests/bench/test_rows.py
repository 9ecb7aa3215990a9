"""Arithmetic of the rows: percentiles, paired ratios, efficiency, flags; the CSV has timm's columns."""

import csv
import io
import json

import numpy as np
import pytest

from catis.bench.report import Report, write_results
from catis.bench.rows import Facts, Measured, rows_of
from catis.bench.timing import paired_ratio, time_rounds
from catis.bench.variants import VANILLA
from catis.core.reduction import Reduction
from catis.files import check_writable

FACTS = Facts("some_vit", 224, 5_700_000, 2_000)
FAST = Reduction.of("tome", 13)
TIMM = [
    "model", "infer_img_size", "infer_samples_per_sec", "infer_step_time", "infer_batch_size", "param_count",
    "infer_gmacs",
]  # fmt: skip


def rows(plain, fast, **found):
    return list(
        rows_of(
            [
                Measured(VANILLA, 4, False, 2_000, 196, plain, roofline=plain),
                Measured(FAST, 4, False, 1_000, 40, fast, **found),
            ],
            FACTS,
        )
    )


def test_ratios_are_paired_by_round():
    found = paired_ratio([1.0, 10.0, 1.0, 10.0], [0.5, 5.0, 0.5, 5.0])  # a drifting machine
    assert (found.median, found.low, found.high) == (2.0, 2.0, 2.0)


def test_a_notebook_shows_speedups_beside_what_was_promised():
    made = rows([0.2] * 5, [0.1] * 5)
    shown = Report(tuple(made), {"threads": 2})._repr_html_()
    assert ">tome<" in shown
    assert ">2<" in shown
    assert "threads 2" in shown
    assert "some_vit" in shown


def test_percentiles_throughput_and_efficiency():
    seconds = [0.1 * (i + 1) for i in range(101)]
    _, row = rows([2 * one for one in seconds], seconds)
    assert (row.p50_ms, row.p90_ms, row.p99_ms) == pytest.approx((5100, 9100, 10000))
    assert row.infer_samples_per_sec == pytest.approx(4 / np.mean(seconds))
    assert row.infer_step_time == pytest.approx(1e3 * np.mean(seconds))
    assert (row.speedup, row.gmacs_ratio, row.efficiency) == pytest.approx((2.0, 2.0, 1.0))
    assert not row.suspicious
    assert row.rounds == 101


@pytest.mark.parametrize(("speed", "flagged"), [(2.19, False), (2.21, True)])
def test_more_than_1_1_is_flagged(speed, flagged):
    _, row = rows([speed, speed, speed], [1.0, 1.0, 1.0])
    assert row.suspicious is flagged
    assert any("above 1.1" in reason for reason in row.reasons) is flagged


def test_vanilla_is_its_own_measure():
    row, _ = rows([1.0, 2.0], [1.0, 2.0])
    assert (row.speedup, row.efficiency, row.roofline_speedup, row.reasons, row.lost_ms) == (1.0, 1.0, 1.0, (), None)


def test_a_roofline_needs_both_lines():
    assert rows([1.0, 2.0], [1.0, 2.0])[1].roofline_speedup is None
    assert rows([1.0, 2.0], [1.0, 2.0], roofline=[0.5, 1.0])[1].roofline_speedup == 2.0


def test_a_failed_row_says_so_and_a_failed_vanilla_leaves_the_others():
    _, row = rows([1.0], (), problem="out of memory")
    assert (row.error, row.speedup, row.infer_samples_per_sec) == ("out of memory", None, None)
    failed, row = rows_of(
        [
            Measured(VANILLA, 4, False, 2_000, 196, problem="out of memory"),
            Measured(FAST, 4, False, 1_000, 40, [1.0, 1.0]),
        ],
        FACTS,
    )
    assert failed.error == "out of memory"
    assert (row.speedup, row.efficiency, row.infer_samples_per_sec) == (None, None, 4.0)


def test_reading_is_per_batch():
    found = list(rows_of([Measured(VANILLA, 4, False, 2_000, 196, [1.0])], FACTS, reading=0.01))
    assert found[0].reading_ms == pytest.approx(40)


def test_csv_starts_with_timms_columns(tmp_path):
    report = Report(tuple(rows([1.0, 2.0], [0.5, 1.0])), {"torch": "2.15"})
    write_results(report, tmp_path / "rows.csv")
    table = list(csv.DictReader(io.StringIO((tmp_path / "rows.csv").read_text())))
    assert list(table[0])[: len(TIMM)] == TIMM
    assert [line["method"] for line in table] == ["vanilla", "tome"]
    assert table[1]["speedup"] == "2.0"
    assert table[1]["param_count"] == "5.7"
    assert table[1]["torch"] == "2.15"
    write_results(report, tmp_path / "rows.json")
    assert json.loads((tmp_path / "rows.json").read_text())["rows"][1]["method"] == "tome"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.csv", "rows.json"]


def test_results_files_that_cannot_be_written(tmp_path):
    for path, message in (
        (tmp_path / "rows.txt", "ends in .csv or .json"),
        (tmp_path / "no" / "rows.csv", "there is no folder"),
    ):
        with pytest.raises(ValueError, match=message):
            check_writable(path, ".csv", ".json")


# rounds


def test_every_step_runs_in_every_round_and_pairs_stay_pairs():
    seen = []
    steps = {name: (lambda name=name: seen.append(name)) for name in "abc"}
    done = []
    timed = time_rounds(steps, 5, warmup=2, threads=1, progress=lambda number, of: done.append((number, of)))
    assert {name: len(times) for name, times in timed.seconds.items()} == {"a": 5, "b": 5, "c": 5}
    assert all(seen.count(name) == 2 + 2 * 5 for name in "abc")  # one untimed pass before each timed one
    assert done[-1] == (5, 5)
    assert timed.failed == {}


def test_the_order_is_random_but_seeded():
    def order(seed):
        seen = []
        time_rounds({name: (lambda name=name: seen.append(name)) for name in "abcd"}, 6, threads=1, seed=seed)
        return seen

    assert order(1) == order(1)
    assert order(1) != order(2)


def test_the_time_limit_ends_rounds_but_not_before_three():
    timed = time_rounds({"a": lambda: 0}, 50, threads=1, max_seconds=0.0)
    assert len(timed.seconds["a"]) == 3


def test_a_step_without_memory_is_left_out_and_the_others_go_on():
    calls = []

    def late():
        calls.append(1)
        if len(calls) > 8:
            raise MemoryError

    def never():
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4000 bytes")

    timed = time_rounds({"good": lambda: 0, "late": late, "never": never}, 6, threads=1)
    assert timed.failed == {"late": "out of memory", "never": "out of memory"}
    assert {name: len(times) for name, times in timed.seconds.items()} == {"good": 6}


def test_other_errors_are_raised():
    def wrong():
        raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes do not match"):
        time_rounds({"wrong": wrong}, 2, threads=1)
