"""Outputs that the pages show: what can be counted again is, what follows from other columns must follow from them."""

import re

import pytest
import timm
from PIL import Image
from scipy.stats import binomtest
from typer.testing import CliRunner

import catis
import catis.zoo
from catis.cli import app
from tests.claims.of_pages import bench_rows
from tests.test_doc_numbers import SHORT, page, real, tables, without_rules
from tests.test_doc_tables import assert_rounded


def test_the_table_of_bench_adds_up():
    """Times cannot be repeated here: ratios are counted again, efficiencies divided again, parts added again."""
    model = timm.create_model("vit_tiny_patch16_224")
    ratio = catis.gmacs(model) / catis.gmacs(model, "tome", r=13)
    rows = bench_rows(14)
    assert len(rows) == 8
    for _, method, r, *_, macs, speed, quartiles, _, efficiency, _ in rows:
        assert_rounded(macs, ratio if r == "13" else 1.0)
        low, high = map(float, quartiles.split("-"))
        assert low <= float(speed) <= high, (method, speed)
        assert float(efficiency) == pytest.approx(float(speed) / ratio if r == "13" else 1.0, abs=0.011)
    parts = bench_rows(10)
    assert len(parts) == 6
    for _, method, _, lost, products, choosing, of_it, merging, bias, rest in parts:
        whole = sum(map(float, (products, choosing, merging, bias, rest)))
        assert float(lost) == pytest.approx(whole, abs=0.31), method
        assert float(of_it) <= float(choosing)


def test_the_dry_run_of_a_sweep():
    model = catis.zoo.load("tiny-6")
    whole = catis.gmacs(model)
    line = r"^ shallow (\w+)(?: tau=[\d.]+)?(?: r=(\d+))? zoo-clean\S* +240 +([\d.]+) +([\d.]+)%"
    shown = re.findall(line, page("docs/sweeps.md"), re.MULTILINE)
    assert len(shown) == 3
    for method, r, gmacs, share in shown:
        cost = whole if method == "vanilla" else catis.gmacs(model, method, r=int(r))
        assert_rounded(gmacs, cost)
        assert_rounded(share, 100 * cost / whole)


@pytest.mark.parametrize("against", ["vanilla", "tome"])
def test_the_comparisons_of_a_store(against):
    """Differences and p follow from who was gained and lost; those from ToMe are also in results/."""
    (block,) = re.findall(
        rf"^\$ catis results runs --against {against}\n((?: .*\n)+)", page("docs/evaluation.md"), re.MULTILINE
    )
    rows = [line.split() for line in block.splitlines() if line.startswith(" deit")]
    assert len(rows) == (2 if against == "vanilla" else 1)
    for model, _, method, r, top1, points, low, high, gained, lost, n, p in rows:
        assert model == SHORT["DeiT-Ti"]
        run, other = (
            real("DeiT-Ti", False, method, int(r)),
            real("DeiT-Ti", False, against, int(r) if against == "tome" else 0),
        )
        assert_rounded(top1, run["top1"])
        assert_rounded(points, float(run["top1"]) - float(other["top1"]))
        assert float(low) < float(points) < float(high)
        assert (int(gained) - int(lost)) / int(n) == pytest.approx(float(points) / 100)
        assert_rounded(p, binomtest(int(gained), int(gained) + int(lost)).pvalue)
        if against == "tome":
            assert [run["gained"], run["lost"], run["n"]] == [gained, lost, n]
            assert (float(low), float(high)) == (float(run["points_low"]), float(run["points_high"]))


def test_the_table_of_a_video_model():
    """GMACs and tokens; the clips are generated and the weights random, so its accuracies say nothing."""
    hf = pytest.importorskip("transformers")
    import torch

    with torch.device("meta"):
        model = hf.VideoMAEForVideoClassification(hf.VideoMAEConfig()).eval()
    (amounts,) = re.findall(r"^ ucf101  catis \[([\d, ]+)\]", page("docs/video.md"), re.MULTILINE)
    r = [int(number) for number in amounts.split(",")]
    shown = re.findall(r"7 of 8 +(\d+) +(\d+)", page("docs/video.md"))
    costs = [catis.gmacs(model, r=0), catis.gmacs(model, r=r)]
    assert [gmacs for gmacs, _ in shown] == [f"{cost:.3g}" for cost in costs]
    assert [tokens for _, tokens in shown] == ["1568", str(catis.info(catis.apply(model, "catis", r=r)).tokens[-1])]


def test_int8_shares_are_of_so_many_images():
    """Every share of the table is a whole number of its 300 images."""
    (table,) = [table for table in tables(page("docs/export.md")) if table[0][0].endswith("n=300")]
    cells = [cell for row in table[1:] for cell in row[1:] if cell.strip("|")]
    assert len(cells) == 7
    for cell in cells:
        assert_rounded(cell, round(300 * float(cell)) / 300)
    drops = sorted(round(100 * (1 - float(row[1]))) for row in table[1:])
    assert drops == [3, 5, 6]
    assert "top-1 class of 3 images in a hundred on the vanilla ViT-Ti, and of 5 or 6 on a reduced one" in " ".join(
        page("docs/export.md").split()
    )


def test_the_trace_of_a_transformers_model():
    """Random weights, so who merged and who went is chance; how many is not."""
    rows = re.findall(r"^ +(\d+) +(\d+) +(\d+) +([\d.]+) +([\d.]+) +\d+$", page("docs/huggingface.md"), re.MULTILINE)
    assert [row[0] for row in rows] == ["1", "2", "12"]
    for block, before, left, merged, evicted in rows:
        assert (int(before), int(left)) == (196 - 8 * (int(block) - 1), 196 - 8 * int(block))
        assert float(merged) + float(evicted) == 8


def test_the_picture_that_is_shown_is_made_again(tmp_path, monkeypatch):
    """Its photo is image 7 of the zoo's test split."""
    monkeypatch.chdir(tmp_path)
    Image.fromarray(catis.zoo.dataset("clean", split="test", n=24)[7][0]).save("photo.png")
    ((words, output),) = re.findall(r"^\$ catis (show .*)\n((?:.*\n)+?)```", page("docs/api.md"), re.MULTILINE)
    printed = CliRunner().invoke(app, words.split(), env={"COLUMNS": "200"}).output
    assert without_rules(printed) == without_rules(output)
