"""The numbers in README and docs are those of the files in results/, of a command that is run here, or add up."""

import csv
import re
from pathlib import Path

import pytest
import timm
import torch
from typer.testing import CliRunner

import catis
from catis.cli import app

ROOT = Path(__file__).parent.parent
SHORT = {"DeiT-Ti": "deit_tiny_patch16_224", "ViT-Ti": "vit_tiny_patch16_224", "ViT-B": "vit_base_patch16_224"}
NOISE = "imagenet@gaussian_noise:3"
METHODS = ("tome", "tofu", "pitome", "mctf", "catis")
DENSE = "deit_tiny"
FIRST = ("tuned", "vanilla", "smaller image", "constant r")


def page(name: str) -> str:
    return (ROOT / name).read_text()


def read(name: str) -> list[dict[str, str]]:
    lines = [line for line in page(f"results/{name}").splitlines() if not line.startswith("#")]
    return list(csv.DictReader(lines))


def tables(text: str) -> list[list[list[str]]]:
    """Markdown tables as rows of cells, without the line under the head."""
    groups = re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE)
    return [
        [[cell.strip() for cell in line.strip("|").split(" | ")] for line in group.splitlines() if "|---" not in line]
        for group in groups
    ]


def cell_of(run: dict[str, str], difference: bool) -> str:
    """A run as the pages print it: top-1, and the paired difference with a star where p < 0.05."""
    top1 = f"{float(run['top1']):.1f}"
    if not difference:
        return top1
    return f"{top1} ({float(run['points']):+.1f}{'*' if float(run['p']) < 0.05 else ''})"


def real(model: str, noisy: bool, method: str, r: int) -> dict[str, str]:
    data = {"imagenet": False, NOISE: True}
    runs = [
        run
        for run in read("real-models.csv")
        if (run["model"], data[run["data"]], run["method"], run["r"]) == (SHORT[model], noisy, method, str(r))
    ]
    assert len(runs) == 1
    return runs[0]


def test_the_tables_of_the_readme():
    runs = {(run["model"], run["budget"], run["view"], run["what"]): run for run in read("tuned.csv")}
    (table,) = [rows for rows in tables(page("README.md")) if rows[0][0].startswith("top-1 at a budget")]
    whats = ["vanilla", "tuned", "budget alone", "smaller image", "constant r", "constant r, mctf"]
    for name, *cells in table[1:]:
        model, budget, view = (name.replace(", noise", ", gaussian_noise 3") + ", clean").split(", ")[:3]
        for what, cell in zip(whats, cells, strict=True):
            run = runs.get((SHORT[model], budget, view, what))
            assert cell == ("-" if run is None else budget_cell(run, "smaller image")), (name, what)
    forms = {(run["model"], run["what"]): run for run in read("triage.csv")}
    head, *rows = next(rows for rows in tables(page("README.md")) if rows[0][0].startswith("top-1 at 0.36"))
    for name, *cells in rows:
        for what, cell in zip(head[1:], cells, strict=True):
            assert cell == budget_cell(forms[SHORT[name], what], "catis"), (name, what)


def budget_cell(run: dict[str, str], other: str) -> str:
    """A run at a budget: top-1, and the paired difference from another form with a star where p < 0.05."""
    points = next(run[name] for name in run if name.startswith("against_"))
    against = f" ({float(points):+.1f}{'*' if float(run['p']) < 0.05 else ''})"
    return f"{float(run['top1']):.1f}{'' if run['what'] in ('vanilla', other) else against}"


def test_the_tables_of_the_results():
    heads = re.findall(r"^(\S+), (clean|noise), n = (\d+); vanilla ([\d.]+) \(95 % interval ([\d.]+) to ([\d.]+)\)",
                       page("docs/results.md"), re.MULTILINE)  # fmt: skip
    bodies = [rows for rows in tables(page("docs/results.md")) if rows[0][:3] == ["r", "GMACs", "tome"]]
    assert len(heads) == len(bodies) == 6
    for (model, view, n, *interval), (_, *rows) in zip(heads, bodies, strict=True):
        vanilla = real(model, view == "noise", "vanilla", 0)
        assert (n, interval) == (vanilla["n"], [f"{float(vanilla[key]):.1f}" for key in ("top1", "low", "high")])
        for r, gmacs, *cells in rows:
            runs = [real(model, view == "noise", method, int(r)) for method in METHODS]
            assert f"{float(runs[0]['gmacs']):.2f}" == gmacs
            assert cells == [cell_of(run, run["method"] != "tome") for run in runs], (model, view, r)


@pytest.mark.parametrize("kind", ["signal", "strategy", "norm"])
def test_the_ablations(kind):
    names = {"signal": ("fused", "cls", "nf"), "strategy": ("triage", "evict", "merge", "global"),
             "norm": ("nf", "l2", "euclidean")}[kind]  # fmt: skip
    runs = read(f"ablation-{kind}.csv")
    (table,) = [rows for rows in tables(page("docs/results.md")) if tuple(rows[0]) == ("r", "data", *names)]
    assert len(table) == 7
    for r, view, *cells in table[1:]:
        for place, (name, cell) in enumerate(zip(names, cells, strict=True)):
            fits = [run for run in runs if run["r"] == r and (run["data"] == NOISE) == (view == "noise")
                    and run["options"].endswith(f"={name}")]  # fmt: skip
            assert [cell_of(run, place > 0) for run in fits] == [cell], (r, view, name)


def test_catis_against_mctf():
    runs = {(run["model"], run["data"] == NOISE, run["r"]): run for run in read("real-catis-against-mctf.csv")}
    (table,) = [rows for rows in tables(page("docs/results.md")) if rows[0][:3] == ["model", "data", "r = 4"]]
    assert len(table) == 7
    for model, view, *cells in table[1:]:
        for head, cell in zip(table[0][2:], cells, strict=True):
            run = runs[SHORT[model], view == "noise", head.removeprefix("r = ")]
            assert cell == f"{float(run['points']):+.1f}{'*' if float(run['p']) < 0.05 else ''}", (model, view, head)


def test_the_tuned_recipes():
    """The table of the page, and what README says first."""
    runs = {(run["model"], run["budget"], run["view"], run["what"]): run for run in read("tuned.csv")}
    (table,) = [rows for rows in tables(page("docs/tuning.md")) if {"vanilla", "smaller image"} <= set(rows[0])]
    for name, *cells in table[1:]:
        model, budget, view = name.split(", ")
        for what, cell in zip(table[0][1:], cells, strict=True):
            run = runs.get((SHORT[model], budget, view, what))
            if run is None:
                assert cell == "-"
                continue
            assert cell == budget_cell(run, "smaller image"), (name, what)
    pattern = r"With (\d+) % of the multiply-adds, on (\d+) photos .* right on ([\d.]+) % instead of\s+([\d.]+) %; " \
              r"feeding it a smaller image keeps ([\d.]+) %, ToMe at constant r ([\d.]+) %"  # fmt: skip
    told = re.search(pattern, page("README.md"), re.DOTALL)
    assert told is not None
    share = f"0.{told[1]}"
    first = [runs[SHORT["DeiT-Ti"], share, "clean", what] for what in FIRST]
    assert {run["n"] for run in first} == {told[2]}
    assert list(told.groups())[2:] == [f"{float(run['top1']):.1f}" for run in first]
    pattern = (
        r"four corruptions of them\s+it is right on ([\d.]+) %, vanilla on ([\d.]+) %, a smaller image on ([\d.]+) %"
    )
    told = re.search(pattern, page("README.md"), re.DOTALL)
    assert told is not None
    for said, what in zip(told.groups(), FIRST, strict=False):
        views = [
            float(run["top1"]) for key, run in runs.items() if key[:2] + key[3:] == (SHORT["DeiT-Ti"], "0.36", what)
        ]
        assert len(views) == 5
        assert said == f"{sum(views) / 5:.1f}", what


def test_the_table_of_dense_features():
    runs = {(run["model"], run["method"], run["r"], run["fill"]): run for run in read("dense.csv")}
    (table,) = [rows for rows in tables(page("docs/models.md")) if rows[0][0] == "method" and "cosine" in rows[0][1]]
    assert f"(vanilla {float(runs['tiny-12', 'vanilla', '0', '']['mIoU']):.2f})" in table[0][2]
    for name, *cells in table[1:]:
        method = name.replace("`", "")
        fills = ("group", "delta")
        for model, column, digits, cell in (
            ("tiny-12", "cosine", 3, cells[0]),
            ("tiny-12", "mIoU", 2, cells[1]),
            (DENSE, "cosine", 3, cells[2]),
        ):
            values = [float(runs[model, method, "8", fill][column]) for fill in fills]
            assert cell == " / ".join(f"{value:.{digits}f}" for value in values), (name, model, column)


@pytest.mark.parametrize("model", SHORT)
def test_the_table_of_rho_s(model):
    bands = {"shallow": range(3), "middle": range(4, 8), "deep": range(9, 12), "all": range(12)}
    rows = read(f"diagnostics-{SHORT[model]}-rho_s.csv")
    (table,) = [rows for rows in tables(page("docs/diagnostics.md")) if rows[0][0] == "rho_s"]
    shown = {line[0].replace("*", "").split(" ")[-1]: line[1:] for line in table if model in line[0]}
    assert set(shown) == {"pairwise", "pool", "s_nf", "s_cls", "fused"}
    for signal, cells in shown.items():
        means = {
            int(row["layer"]): float(row["mean"]) for row in rows if row["signal"] == signal and row["layer"].isdigit()
        }
        for cell, blocks in zip(cells, bands.values(), strict=True):
            known = [means[block] for block in blocks if block in means]
            assert float(cell.strip("*")) == pytest.approx(sum(known) / len(known), abs=6e-4), (signal, cell)


def test_the_speeds_add_up_and_the_readme_quotes_them():
    """Timings cannot be repeated here: MAC ratios are counted again, efficiencies divided again."""
    ratios = {}
    rows = [
        row for table in tables(page("docs/performance.md")) for row in table if len(row) == 8 and row[0] != "model"
    ]
    assert len(rows) > 50
    for model, _, _, r, _, ratio, speed, efficiency in rows:
        if (model, r) not in ratios:
            with torch.device("meta"):
                built = timm.create_model(model)
            ratios[model, r] = catis.gmacs(built) / catis.gmacs(built, r=int(r))
        assert float(ratio) == pytest.approx(ratios[model, r], abs=0.0051)
        assert float(efficiency) == pytest.approx(float(speed.split(" ")[0]) / float(ratio), abs=0.011)
    pattern = r"ToMe ([\d.]+) times, ToFu ([\d.]+),\s+PiToMe ([\d.]+), CATIS ([\d.]+), MCTF ([\d.]+) times"
    told = re.search(pattern, page("README.md"))
    tiny = [row for row in rows if (row[0], row[1], row[3]) == ("vit_tiny_patch16_224", "8", "13")]
    speeds = {row[2]: row[6].split(" ")[0] for row in tiny}
    assert told is not None
    assert list(told.groups()) == [speeds[method] for method in ("tome", "tofu", "pitome", "catis", "mctf")]


def test_the_evaluation_that_is_shown():
    top1, number = r"([\d.]+) \(([\d.]+)-([\d.]+)\)", r" +([\d.]+)"
    line = rf"^ imagenet +(vanilla|catis)(?: 13)? +{top1}{number}{number}{number}"
    shown = re.findall(line, page("docs/evaluation.md"), re.MULTILINE)
    assert [line[0] for line in shown] == ["vanilla", "catis"]
    for method, *cells in shown:
        run = real("DeiT-Ti", False, method, 13 if method == "catis" else 0)
        values = [float(run[key]) for key in ("top1", "low", "high", "top5", "n", "gmacs")]
        forms = (".2f", ".1f", ".1f", ".1f", ".0f", ".3g")
        assert cells == [f"{value:{form}}" for value, form in zip(values, forms, strict=True)]


def test_the_demo_is_one_run():
    run = page("results/demo.txt")
    assert run in page("docs/demo.md")
    (excerpt,) = re.findall(r"```\n(What one gains.*?)```", page("README.md"), re.DOTALL)
    assert excerpt.count(" ...") >= 1
    for part in excerpt.split(" ...\n"):
        assert part.strip("\n") in run


def without_rules(output: str) -> list[str]:
    """Lines of a table as one reads them: rules and the blanks that fill up a row left out."""
    return [line.rstrip() for line in output.splitlines() if line.strip(" ─")]


def test_the_outputs_that_can_be_printed_again():
    pages = page("docs/api.md") + page("docs/budget.md") + page("docs/recipes.md")
    shown = re.findall(r"^\$ catis (gmacs .*|recipes)\n((?:.+\n)+?)```", pages, re.MULTILINE)
    assert len(shown) == 4
    for words, output in shown:
        printed = CliRunner().invoke(app, words.split(), env={"COLUMNS": "200"}).output
        assert without_rules(printed) == without_rules(output)
