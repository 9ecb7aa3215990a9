"""Tables of the diagnostics, budget, evaluation and zoo pages, number by number against the files they come from."""

import json
from math import prod

import pytest

from tests.test_doc_numbers import ROOT, SHORT, page, read, tables

PROBED = {"ToMe": "tome", "MCTF": "mctf", "PiToMe": "pitome", "CATIS": "catis"}
SHAPES = ("rising", "middle", "spared start", "falling")


def table_of(name: str, *begin: str) -> list[list[str]]:
    """The one table of a page whose head begins so."""
    (found,) = [rows for rows in tables(page(name)) if rows[0][: len(begin)] == list(begin)]
    return found


def diagnostic(model: str, what: str) -> list[dict[str, str]]:
    return read(f"diagnostics-{SHORT[model]}-{what}.csv")


def assert_rounded(cell: str, value: float | str) -> None:
    """The cell is the value at as many digits as the cell has."""
    mantissa, _, exponent = cell.lower().partition("e")
    last = 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
    assert float(cell) == pytest.approx(float(value), abs=0.501 * last), (cell, value)


def test_rho_off_of_the_reduced_model():
    head, *rows = table_of("docs/diagnostics.md", "DeiT-Ti, r=23")
    runs = {(run["method"], run["layer"]): run for run in diagnostic("DeiT-Ti", "reduction") if run["r"] == "r=23"}
    blocks = [title.split(" ")[1] for title in head[1:]]
    columns = {"**vanilla on as many tokens (`matched`)**": ("tome", "matched"), "chance alone": ("tome", "chance")}
    assert len(rows) == 6
    for name, *cells in rows:
        method, column = columns[name] if name in columns else (PROBED[name], "rho_off")
        for block, cell in zip(blocks, cells, strict=True):
            assert_rounded(cell, runs[method, block][column])


def test_growth_of_the_distortion():
    rows = table_of("docs/diagnostics.md", "", "beta (95 %)")[1:]
    assert len(rows) == 6
    for name, beta, *cells in rows:
        model, method, r = name.replace("(n=48) ", "").split(" ")
        (run,) = [run for run in diagnostic(model, "fits") if (run["method"], run["r"]) == (PROBED[method], r)]
        for cell, column in zip(beta.replace("(", "").replace(")", "").replace(",", "").split(),
                                ("beta", "beta_low", "beta_high"), strict=True):  # fmt: skip
            assert_rounded(cell, run[column])
        for cell, column in zip(cells, ("R2", "linear_R2", "p", "agreement"), strict=True):
            assert_rounded(cell, run[column])


def test_beta_does_not_move_with_r():
    head, measured, coupled, final = table_of("docs/diagnostics.md", "r", "2", "4")
    runs = {run["r"].removeprefix("r="): run for run in diagnostic("DeiT-Ti", "beta")}
    grown = float(runs["8"]["beta"]) - 1
    for r, beta, by_paper in zip(head[1:], measured[1:], coupled[1:], strict=True):
        assert_rounded(beta, runs[r]["beta"])
        assert_rounded(by_paper, 1 + grown * int(r) / 8)
    assert [float(cell) for cell in final[1:]] == sorted(float(cell) for cell in final[1:])


def test_critical_r_of_deit():
    head, agreement, accuracy, curve, convex = table_of("docs/diagnostics.md", "", "ToMe", "PiToMe")
    runs = {run["method"]: run for run in diagnostic("DeiT-Ti", "critical")}
    for place, name in enumerate(head[1:], 1):
        run = runs[PROBED[name]]
        assert (agreement[place], accuracy[place]) == (run["r_crit_agreement"], run["r_crit_accuracy"])
        for r, cell in zip((8, 16, 24, 32), curve[place].split(" / "), strict=True):
            assert float(cell) == float(run[f"agreement r={r}"])
        assert (convex[place], run["convex"]) == ("yes", "True")


def test_critical_r_over_the_depths_of_the_zoo():
    runs = {(run["method"], run["by"]): run for run in read("diagnostics-zoo-depth.csv")}
    rows = table_of("docs/diagnostics.md", "", "r_crit at L = 6 / 12 / 18")[1:]
    assert len(rows) == len(runs) == 4
    for name, amounts, slope, fit, _ in rows:
        method, by = name.split(", ")
        run = runs[PROBED[method], by]
        assert amounts == " / ".join(run[f"r_crit tiny-{depth}"] for depth in (6, 12, 18))
        assert slope == "{:.0f} ({:.0f}, {:.0f})".format(*(float(run[key]) for key in ("slope", "low", "high")))
        assert_rounded(fit, run["r_squared"])


def test_perturbation_energy():
    rows = table_of("docs/diagnostics.md", "features", "noise")[1:]
    assert len(rows) == 4
    for name, _, slope, first, ratio, pair, unary in rows:
        features = name.replace("Gaussian,", "gaussian").replace("DeiT-Ti", SHORT["DeiT-Ti"])
        runs = [run for run in diagnostic("DeiT-Ti", "energy") if (run["features"], run["tokens"]) == (features, "512")]
        _, run, _ = sorted(runs, key=lambda run: float(run["sigma"]))  # 0.01, 0.1 and 0.5 standard deviations
        assert slope == "{:.2f} ({:.2f}, {:.2f})".format(*(float(run[key]) for key in ("slope", "low", "high")))
        columns = ("first_order_slope", "ratio", "pair_noise_to_signal", "unary_noise_to_signal")
        for cell, column in zip((first, ratio, pair, unary), columns, strict=True):
            assert_rounded(cell, run[column])


def test_shapes_of_a_budget():
    """Geometric means over the methods, each as a multiple of the same share in every block."""
    kl = {(run["model"], run["budget"], run["method"], run["shape"]): float(run["kl"]) for run in read("shapes.csv")}
    head, *rows, overall, worse = table_of("docs/budget.md", "KL, same share = 1")
    assert tuple(head[1:]) == SHAPES
    for place, shape in enumerate(SHAPES, 1):
        ratios = {key[:3]: kl[(*key[:3], shape)] / kl[(*key[:3], "same share")] for key in kl}
        for row in rows:
            few = [ratio for key, ratio in ratios.items() if f"{key[0]}, {key[1]}" == row[0]]
            assert len(few) == 3
            assert_rounded(row[place], prod(few) ** (1 / 3))
        assert len(ratios) == 3 * len(rows) == 36
        assert_rounded(overall[place], prod(ratios.values()) ** (1 / 36))
        assert int(worse[place]) == sum(ratio > 1 for ratio in ratios.values())


def test_passes_of_an_evaluation():
    runs = [run for run in read("eval-loading.csv") if run["pass"] != "forward passes alone"]
    for (_, seconds, over), run in zip(table_of("docs/evaluation.md", "pass")[1:], runs, strict=True):
        assert_rounded(seconds, run["seconds"])
        assert_rounded(over.removesuffix(" %"), 100 * float(run["over_forward"]))


def test_cards_of_the_zoo():
    cards = json.loads((ROOT / "src" / "catis" / "zoo" / "weights" / "cards.json").read_text())
    head, *rows = table_of("docs/zoo.md", "model", "clean")
    assert {row[0] for row in rows} == set(cards)
    for name, *cells in rows:
        for view, cell in zip(head[1:7], cells, strict=False):
            share, n = cell.removesuffix(")").split(" (")
            card = cards[name]["views"][view]
            assert (f"{100 * card['accuracy']:.1f}%", int(n)) == (share, card["n"])


def test_speed_of_exported_files():
    runs = {(run["method"], run["batch"]): run for run in read("export.csv")}
    columns = ("plain_ms_per_image", "reduced_ms_per_image", "speedup", "gmacs_ratio", "efficiency")
    rows = table_of("docs/export.md", "ViT-S, r=13, ONNX Runtime 1.31.1, 1 thread")[1:]
    assert len(rows) == len(runs) == 4
    for name, *cells in rows:
        run = runs[tuple(name.split(", batch "))]
        for cell, column in zip(cells, columns, strict=True):
            assert_rounded(cell, run[column])
