"""Tables of the diagnostics, budget, evaluation and zoo pages, number by number against the files they come from."""

import json
from math import prod

import pytest

from catis.core.budget import SHAPE
from catis.tuning.candidates import SHAPES
from tests.test_doc_numbers import ROOT, SHORT, budget_cell, page, read, tables

SHORT_OF = {model: short for short, model in SHORT.items()}
PROBED = {"ToMe": "tome", "MCTF": "mctf", "PiToMe": "pitome", "CATIS": "catis"}


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


def budget_kl() -> dict[tuple[str, str], dict[tuple[str, str], float]]:
    """KL of every method and shape, by model and budget."""
    kl: dict[tuple[str, str], dict[tuple[str, str], float]] = {}
    for run in read("shapes.csv"):
        kl.setdefault((run["model"], run["budget"]), {})[run["method"], run["shape"]] = float(run["kl"])
    return kl


def check_ratios(head: str, ratios: dict[tuple[str, str], list[float]]) -> None:
    """The rows of a table of docs/budget.md, the geometric means below them, and how often they are above 1."""
    _, *rows, overall, worse = table_of("docs/budget.md", head)
    assert {row[0] for row in rows} == {", ".join(key) for key in ratios}
    for name, *cells in rows:
        for cell, ratio in zip(cells, ratios[tuple(name.split(", "))], strict=True):
            assert_rounded(cell, ratio)
    for place, column in enumerate(zip(*ratios.values(), strict=True), 1):
        assert_rounded(overall[place], prod(column) ** (1 / len(column)))
        assert int(worse[place]) == sum(ratio > 1 for ratio in column)


def test_shapes_of_a_budget():
    """Each as a multiple of the same share in every block, under cluster."""
    head = table_of("docs/budget.md", "KL, same share = 1")[0]
    assert set(head[1:]) == set(SHAPES) - {"same share"}
    kl = budget_kl()
    ratios = {
        key: [own["cluster", shape] / own["cluster", "same share"] for shape in head[1:]] for key, own in kl.items()
    }
    check_ratios("KL, same share = 1", ratios)


def test_few_blocks_of_a_budget():
    """As a multiple of the same shape in all blocks, under cluster."""
    few, usual = "in four blocks", "before the middle"
    kl = {key: own for key, own in budget_kl().items() if ("cluster", few) in own}
    check_ratios("KL, all blocks = 1", {key: [own["cluster", few] / own["cluster", usual]] for key, own in kl.items()})


@pytest.mark.parametrize(
    ("switch", "begin"),
    [
        ("restore_norm", "KL, norms as they come = 1"),
        ("size_gain", "KL, the whole size term = 1"),
        ("soften", "KL, attention as it is = 1"),
    ],
)
def test_switches_of_a_reduction(switch, begin):
    """KL with a switch, as a multiple of that without."""
    head, *rows, overall, worse = table_of("docs/methods.md", begin)
    ratios: dict[str, dict[str, float]] = {}
    for run in read("switches.csv"):
        if run["switch"] != switch:
            continue
        own = ratios.setdefault(f"{SHORT_OF.get(run['model'], run['model'])}, {run['budget']}", {})
        own[run["method"]] = float(run["kl_with"]) / float(run["kl_without"])
    assert [row[0] for row in rows] == list(ratios)
    for name, *cells in rows:
        for method, cell in zip(head[1:], cells, strict=True):
            assert_rounded(cell, ratios[name][method])
    for place, method in enumerate(head[1:], 1):
        column = [own[method] for own in ratios.values()]
        assert_rounded(overall[place], prod(column) ** (1 / len(column)))
        assert int(worse[place]) == sum(ratio > 1 for ratio in column)


def test_methods_of_a_budget():
    """Each as a multiple of cluster, all at the default shape."""
    head, usual = table_of("docs/budget.md", "KL, cluster = 1")[0], "before the middle"
    ratios = {
        key: [own[method, usual] / own["cluster", usual] for method in head[1:]] for key, own in budget_kl().items()
        if (head[1], usual) in own
    }  # fmt: skip
    assert SHAPES[usual] == SHAPE
    check_ratios("KL, cluster = 1", ratios)


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
    assert len(rows) == len(runs) == 6
    for name, *cells in rows:
        run = runs[tuple(name.split(", batch "))]
        for cell, column in zip(cells, columns, strict=True):
            assert_rounded(cell, run[column])


@pytest.mark.parametrize(("file", "other"), [("levers.csv", "smaller image"), ("triage.csv", "catis")])
def test_forms_of_a_tuned_recipe(file, other):
    """What each lever adds, and what CATIS gives under a tuned schedule."""
    head, *rows = table_of("docs/tuning.md", f"top-1, % (points from {other}, * p < 0.05)")
    runs = {(run["what"], run["model"], run["budget"]): run for run in read(file)}
    columns = [tuple(title.split(", ")) for title in head[1:]]
    assert {row[0] for row in rows} == {what for what, _, _ in runs}
    for what, *cells in rows:
        for (model, budget), cell in zip(columns, cells, strict=True):
            run = runs.get((what, SHORT[model], budget))
            if run is None:
                assert cell == "-"
                continue
            assert cell == budget_cell(run, other), (what, model)


def test_paired_with_every_control():
    """A tuned recipe and a budget alone, image by image against each control."""
    head, *rows = table_of("docs/tuning.md", "points ahead of (* p < 0.05)")
    runs = {
        tuple(run[key] for key in ("model", "budget", "view", "what", "control")): run for run in read("paired.csv")
    }
    assert len(rows) * len(head[1:]) >= len(runs)
    for name, *cells in rows:
        model, *rest = name.split(", ")
        for control, cell in zip(head[1:], cells, strict=True):
            run = runs.pop((SHORT[model], *rest, control), None)
            star = "*" if run and float(run["p"]) < 0.05 else ""
            assert cell == (f"{float(run['points']):+.1f}{star}" if run else "-"), (name, control)
    assert not runs


def test_theta_by_both_objectives():
    head, *rows = table_of("docs/tuning.md", "model, chosen by")
    runs = {(run["model"], run["objective"]): run for run in read("theta.csv")}
    assert len(rows) == len(runs) == 6
    columns = [*head[1:-3], "kl", "agreement", "n"]
    for name, *cells in rows:
        model, objective = name.split(", ")
        for cell, column in zip(cells, columns, strict=True):
            assert_rounded(cell, runs[SHORT[model], objective][column])


def test_agreement_of_int8_files():
    runs = {(run["model"], run["method"], run["budget"], run["runtime"]): run for run in read("int8.csv")}
    rows = table_of("docs/deploy.md", "agreement with vanilla, %")[1:]
    assert len(rows) * 2 == len(runs)
    for name, method, budget, n, float_share, *shares in rows:
        found = [runs[SHORT[name], method, budget, runtime] for runtime in ("onnxruntime", "openvino")]
        assert {run["n"] for run in found} == {n}
        assert_rounded(float_share, 100 * float(found[0]["reduced"]))
        values = [run[key] for run in found for key in ("vanilla_int8", "reduced_int8")]
        for cell, value in zip(shares, values, strict=True):
            assert_rounded(cell, 100 * float(value))


def test_int8_times_fewer_tokens():
    """Shares of the product at batch 8, speed-ups over vanilla in int8 at batch 1."""
    names = ("model", "batch", "runtime", "method", "budget")
    runs = {tuple(run[name] for name in names): run for run in read("deploy.csv") if run["format"] == "int8"}
    models = {**SHORT, "ViT-S": "vit_small_patch16_224"}
    rows = table_of("docs/deploy.md", "int8 x fewer tokens")[1:]
    assert len(rows) == len({key[0:1] + key[2:4] for key in runs})
    for name, runtime, alone, *cells in rows:
        model, method = name.split(", ")
        assert_rounded(alone, runs[models[model], "8", runtime, method, "vanilla"]["int8_speedup"])
        places = [("8", "0.65", "share_of_product"), ("8", "0.5", "share_of_product")]
        places += [("1", "0.65", "speedup"), ("1", "0.5", "speedup")]
        for cell, (batch, budget, column) in zip(cells, places, strict=True):
            assert_rounded(cell, runs[models[model], batch, runtime, method, budget][column])
