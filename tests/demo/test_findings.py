"""The demo's numbers against independent ones, the same bits on every run, and timings in no figure."""

import csv
import io
import json
import re

import numpy as np
import pytest
import torch
from scipy import stats

import catis
from catis import zoo
from catis.demo.claims import judge_claims, verdict
from catis.demo.figures import TITLES, draw_figures
from catis.demo.findings import run
from catis.demo.limits import first_loss
from catis.demo.page import numbers_json, report_files
from catis.demo.settings import Settings, grid
from catis.demo.tables import cost_table, limit_table, main_table, method_table
from catis.demo.words import CAVEAT, GLOSSARY, gains
from catis.diagnostics.critical import fit_depth
from catis.evaluate.metrics import compare
from catis.runs.predictions import Predictions
from tests.demo.conftest import TINY


def accuracy(model: str, method: str, r: int, view: str) -> float:
    """Image by image, with nothing of the demo's."""
    net = zoo.load(model)
    return accuracy_of(net if method == "vanilla" else catis.apply(net, method, r=r), view)


def accuracy_of(net, view: str) -> float:
    parts = [("clean", 10)] if view == "clean" else [("hard", 2), ("renditions", 2), ("sketch", 2)]
    pairs = [pair for name, n in parts for pair in zoo.dataset(name, split="test", n=n)]
    images, labels = zoo.normalise(np.stack([image for image, _ in pairs])), [label for _, label in pairs]
    with torch.no_grad():
        return float(
            np.mean([int(net(one[None]).argmax()) == label for one, label in zip(images, labels, strict=True)])
        )


def test_table_against_an_independent_computation(measured):
    assert [(row.model, row.method, row.r) for row in measured.rows] == [
        (model, method, r)
        for model, rs in (("tiny-6", (18, 36)), ("tiny-12", (9, 18)))
        for method, r in [("vanilla", 0), *((m, r) for r in rs for m in ("tome", "catis"))]
    ]
    for row in measured.rows:
        net = zoo.load(row.model)
        assert row.gmacs == pytest.approx(catis.gmacs(net, "tome", r=row.r))
        assert row.ratio == pytest.approx(catis.gmacs(net) / row.gmacs)
        assert row.efficiency == pytest.approx(row.speed_up / row.ratio)
        assert row.speed_up > 0
        for view in ("clean", "shifted"):
            assert row.accuracy[view] == pytest.approx(accuracy(row.model, row.method, row.r, view)), row


def test_r_crit_is_where_the_measured_accuracy_falls(measured):
    for (model, method), limit in measured.limits["clean"].items():
        curve = measured.curves[model, "clean", method]
        lost = {r for r, share in curve.items() if curve[0] - share > 0.05 + 1e-9}
        assert (limit.r in lost) if limit.r is not None else not lost
        assert limit.r is None or limit.r == 1 or limit.r - 1 in curve
        assert limit.interval[0] <= limit.interval[1] <= limit.r_max + 1
    for method, law in measured.laws["clean"].items():
        known = [(one.depth, one.r) for (_, name), one in measured.limits["clean"].items() if name == method and one.r]
        if law.fit is not None:
            assert law.fit == fit_depth(*map(list, zip(*known, strict=True)))
            assert law.minus(law) == (0.0, 0.0)


def test_rho_has_a_curve_for_every_block_and_method(measured):
    for name, depth in (("tiny-6", 6), ("tiny-12", 12)):
        one = measured.probed[name]
        assert {len(one.consistency[signal]) for signal in ("pairwise", "pool", "s_nf", "s_cls", "fused")} == {depth}
        assert set(one.reduced) == {"tome", "catis"}
        assert one.n == 4
        assert len(one.matched) == depth


def test_bit_for_bit_the_same_whatever_the_threads(measured):
    before, done = torch.get_num_threads(), []
    torch.set_num_threads(4)
    try:
        again = run(TINY, lambda what, share: done.append(share))
        assert torch.get_num_threads() == 4
    finally:
        torch.set_num_threads(before)
    first, second = draw_figures(measured), draw_figures(again)
    assert set(first) == {"gain.svg", "accuracy.svg", "r_crit.svg", "rho_s.svg", "rho_off.svg", "tokens.png"}
    assert all(first[name] == second[name] for name in first)
    assert numbers_json(measured) == numbers_json(again)
    assert untimed(main_table(measured).csv()) == untimed(main_table(again).csv())
    assert done == sorted(done)
    assert done[-1] == pytest.approx(1)  # so that the progress bar ends at 100 %


def untimed(text: str) -> list[dict[str, str]]:
    rows = csv.DictReader(io.StringIO(text))
    return [{key: value for key, value in row.items() if not key.startswith("measured")} for row in rows]


def test_no_timing_reaches_a_figure_or_the_numbers(measured):
    slow = [type(row)(**{**row.__dict__, "speed_up": 9.0}) for row in measured.rows]
    rivals = [type(row)(**{**row.__dict__, "speed_up": 9.0}) for row in measured.at_cost]
    other = type(measured)(**{**measured.__dict__, "rows": slow, "at_cost": rivals})
    assert draw_figures(other) == draw_figures(measured)
    assert numbers_json(other) == numbers_json(measured)
    assert main_table(other).csv() != main_table(measured).csv()


def test_another_seed_is_other_images(measured):
    other = run(Settings(**{**TINY.__dict__, "seed": 1, "models": ("tiny-6",), "compared": ("tiny-6",)}))
    assert other.picture.tobytes() != measured.picture.tobytes()


def test_the_page_holds_everything_and_asks_for_nothing(measured):
    files = report_files(measured, {"torch": "x"})
    page = files["report.html"].decode()
    assert page.count("<figure") == 6
    assert page.count('role="img"') == 1 + 4 + 1 + 2 + 2  # a panel each, so that they stand below each other on a phone
    assert page.count('class="tile"') == 3
    order = [
        "times as fast",
        "<figure",
        CAVEAT,
        "at one cost",
        "<img",
        "What this shows and what not",
        "These are real",
    ]
    assert [page.index(words) for words in order] == sorted(page.index(words) for words in order)
    for name, meaning in GLOSSARY.items():  # a word is explained before it stands in a figure or a table
        assert page.index(meaning[:40]) < page.index(f"<title>{TITLES[name]}")
    assert "data:image/png;base64," in page
    assert not re.findall(r'(?:src|href)="(?!data:)', page)
    for table in (
        main_table(measured),
        cost_table(measured),
        limit_table(measured, "clean"),
    ):
        assert table.title.split(" (")[0] in page
        assert {len(row) for row in table.rows} == {len(table.columns)}
    numbers = json.loads(files["numbers.json"])
    assert numbers["n"] == {"clean": 10, "shifted": 6}
    assert len(numbers["rows"]) == len(measured.rows) == len(untimed(files["table.csv"].decode()))


def replaced(measured, **fields):
    return type(measured)(**{**measured.__dict__, **fields})


def predicted(right) -> Predictions:
    """Of images whose class is 0."""
    n = len(right)
    top = np.where(right, 0, 1)[:, None]
    return Predictions([str(k) for k in range(n)], np.zeros(n, np.int64), top, np.ones(n), np.ones(n))


def test_verdicts_follow_the_numbers(measured):
    """The same words cannot come out of opposite numbers."""
    good, bad = predicted(np.ones(50, bool)), predicted(np.zeros(50, bool))
    better, worse = ({key: compare(*pair) for key in measured.pairs} for pair in ((good, bad), (bad, good)))
    assert judge_claims(replaced(measured, pairs=better))[0].verdict == "better wherever a difference shows"
    assert judge_claims(replaced(measured, pairs=worse))[0].verdict == "no: worse wherever a difference shows"
    same = {key: compare(good, good) for key in measured.pairs}
    assert judge_claims(replaced(measured, pairs=same))[0].verdict.startswith("not shown")
    assert "*" in main_table(replaced(measured, pairs=better)).csv()
    assert "*" not in main_table(replaced(measured, pairs=same)).csv()


def test_pairs_are_compared_exactly():
    rng = np.random.default_rng(0)
    first, second = rng.random(60) < 0.8, rng.random(60) < 0.5
    pair = compare(predicted(first), predicted(second))
    wins, losses = (first & ~second).sum(), (second & ~first).sum()
    assert pair.points == pytest.approx(100 * (first.mean() - second.mean()))
    assert pair.p_value == pytest.approx(stats.binomtest(int(wins), int(wins + losses)).pvalue)
    low, high = stats.ttest_rel(first.astype(float), second.astype(float)).confidence_interval()
    assert (pair.low, pair.high) == (pytest.approx(100 * low, abs=2), pytest.approx(100 * high, abs=2))
    assert verdict(compare(predicted(first), predicted(first))) == "no difference"


def test_the_sweet_spot_is_the_largest_r_that_loses_at_most_a_point(measured):
    def told(shares):
        rows = [
            type(row)(**{**row.__dict__, "accuracy": {"clean": shares.get(row.r, 0.5), "shifted": 0.5}})
            for row in measured.rows
        ]
        (_, fast), (right, instead), (cliff, _) = gains(replaced(measured, rows=rows))
        assert "cliff" in cliff
        return f"{fast}; {right} {instead}"

    assert "tiny-12, 9 tokens removed in every block (r=9)" in told({0: 0.9, 9: 0.895, 18: 0.88})
    assert "89.5 % right instead of 90.0 %" in told({0: 0.9, 9: 0.895, 18: 0.88})
    assert "(r=18)" in told({0: 0.9, 9: 0.7, 18: 0.9})
    assert "(r=9)" in told({0: 0.9})  # none keeps the accuracy: the smallest, with what it costs


def test_at_one_cost_stand_constant_r_a_budget_a_recipe_and_a_smaller_image(measured):
    titles = [row.method for row in measured.at_cost]
    assert titles[0] == "constant r"
    assert titles[-1] == "smaller image"
    assert any(title.startswith("budget=") for title in titles)
    assert any(title.startswith("recipe tiny-12@") for title in titles)
    net = zoo.load("tiny-12")
    (budget,) = [float(title.removeprefix("budget=")) for title in titles if title.startswith("budget=")]
    for row in measured.at_cost:
        assert 1 / row.ratio <= budget + 1e-3, row.method
        assert row.gmacs * row.ratio == pytest.approx(catis.gmacs(net))
    right = accuracy_of(catis.apply(net, "catis", budget=budget), "clean")
    assert next(row for row in measured.at_cost if "budget" in row.method).accuracy["clean"] == pytest.approx(right)
    assert set(measured.cost_pairs) == set(titles[1:])
    shown = method_table(measured)
    assert shown.columns == ["clean %", "r=9", "r=18", "r_crit (95 %)"]
    assert [row[0] for row in shown.rows] == ["vanilla", "tome", "catis"]


def test_exactly_five_points_are_not_more_than_five():
    losses = np.array([[0.0, 0.05], [0.0, 0.1]])
    assert first_loss([0, 4], losses, 4) == [5, 3]


@pytest.mark.parametrize(("r_max", "steps"), [(36, 2), (18, 4), (9, 4), (9, 8), (2, 8)])
def test_the_grid_is_what_bisection_visits(r_max, steps):
    measured = grid(r_max, steps)
    assert measured[-1] == r_max
    assert measured == sorted(set(measured))
    assert r_max // 2 in measured
    assert len(measured) <= max(steps, 2)
