"""The page of a results store: answer first, controls and intervals, every number with its record, fast with many."""

import html
import json
import re
import time

import pytest
from typer.testing import CliRunner

from catis.cli import app
from catis.data.corruptions import CORRUPTIONS
from catis.report.paper import beside_paper, paper_top1
from catis.report.store import store_page
from catis.runs.store import Store
from tests.report.test_page import Structure
from tests.runs.records import predictions, record


def run(*arguments: object):
    return CliRunner().invoke(app, [str(one) for one in arguments], env={"COLUMNS": "200"})


@pytest.fixture
def store(tmp_path) -> Store:
    store = Store(tmp_path / "runs")
    vanilla = {"method": "vanilla", "r": 0, "schedule": "", "amounts": [0, 0]}
    store.write(record("v", **vanilla, gmacs=0.12, top1=80.0), predictions(40, 32))
    small = {"size": [64, 64], "crop_pct": 1.0, "interpolation": "bicubic"}
    store.write(record("s", **vanilla, gmacs=0.06, top1=70.0, preprocessing=small), predictions(40, 28))
    store.write(record("t", gmacs=0.09, top1=79.5), predictions(40, 31))
    store.write(record("c", method="catis", gmacs=0.09, top1=60.0), predictions(40, 24))
    return store


def test_the_page_has_the_answer_the_figure_and_every_record(store):
    page = store_page(store, "catis report runs")
    seen = Structure(page)
    assert seen.open == []
    text = "".join(seen.text)
    assert "25 % fewer multiply-adds with tome 8 and is right on 79.5 % of 4 images instead of 80.0 %" in text
    assert page.index("<svg") < page.index("<table")
    legend = re.search(r'<div class="legend">(.*?)</div>', page, re.DOTALL)
    assert legend is not None
    assert re.findall(r"</svg> ([\w ]+)</span>", legend[1]) == ["catis", "smaller image", "tome", "vanilla"]
    assert all(f"<td>{name}</td>" in page for name in ("v", "s", "t", "c"))
    assert "75.00" not in text
    assert "catis report runs" in text


def test_differences_are_paired_and_what_cannot_be_compared_is_counted(store):
    page = html.unescape(store_page(store, ""))
    assert "Against vanilla, on the same images" in page
    assert "-2.50 (" in page  # tome 31 of 40 against vanilla 32
    assert "Against tome, on the same images" in page
    assert "-17.50 (" in page  # catis 24 against tome 31


def test_the_paper_stands_beside_where_it_has_a_number(store):
    assert "Beside the paper" not in store_page(store, "")
    ours = record("p", model="vit_small_patch16_224.augreg_in1k", method="catis", r=13, schedule="13", data="imagenet")
    assert paper_top1(ours) == 70.93
    assert paper_top1(record("q", model="vit_small_patch16_224", method="catis", r=8, data="imagenet")) is None
    store.write(ours)
    page = store_page(store, "")
    assert "Beside the paper" in page
    assert "70.93" in page


def test_the_papers_ablations_corruptions_and_video_stand_beside_too():
    deit = {"model": "deit3_large_patch16_224.fb_in1k", "method": "catis", "data": "imagenet-a"}
    assert paper_top1(record("a", **deit, r=10, options={"signal": "fused", "strategy": "merge"})) == 3.89
    assert paper_top1(record("a", **deit, r=10, options={"signal": "cls", "strategy": "triage"})) == 27.73
    assert paper_top1(record("a", **deit, r=11, options={"signal": "fused", "strategy": "triage"})) == 26.11
    assert paper_top1(record("a", **deit, r=11, options={"signal": "cls", "strategy": "triage"})) is None
    video = {"model": "MCG-NJU/videomae-base", "method": "catis", "data": "ucf101", "r": None}
    assert paper_top1(record("v", **video, amounts=[0] * 3 + [160] * 9)) == 81.73
    assert paper_top1(record("v", **video, amounts=[160] * 12)) is None
    runs = [
        record(f"{name}{severity}", model="vit_base_patch16_224", method="tome", r=13, schedule="13", data="imagenet",
               corruption=name, severity=severity, top1=20.0 + severity)
        for name in CORRUPTIONS for severity in range(1, 6)
    ]  # fmt: skip
    (mean,) = beside_paper(runs)
    assert (mean.here, mean.paper, mean.n) == (pytest.approx(23.0), 23.13, 75 * 4)
    assert beside_paper(runs[1:]) == []


def test_damaged_records_are_named_and_an_empty_store_is_refused(store, tmp_path):
    store.path("broken").write_text("{")
    assert "Left out, damaged" in store_page(store, "")
    (tmp_path / "none").mkdir()
    result = run("report", tmp_path / "none", "-o", tmp_path / "r.html")
    assert result.exit_code == 2
    assert "neither records nor tune.json in it" in result.output
    assert "is not a folder" in run("report", tmp_path / "nowhere").output


def test_the_command_writes_the_page(store, tmp_path):
    result = run("report", store.folder, "-o", tmp_path / "r.html")
    assert result.exit_code == 0, result.output
    page = (tmp_path / "r.html").read_text()
    assert not re.findall(r"""(?:src|href)=["'](?!data:|#)""", page)
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")


def test_five_thousand_records_are_one_page_of_few_megabytes(tmp_path):
    store = Store(tmp_path / "many")
    for at in range(5000):
        content = record(f"r{at:04}", model=f"m{at % 10}", data=f"d{at // 10 % 10}", gmacs=0.01 + at / 1e5)
        store.path(content.name).write_text(content.to_json())
    start = time.process_time()
    page = store_page(store, "")
    assert page.count("<tr") > 5000
    assert len(page) < 6e6
    assert time.process_time() - start < 60


POINT = {
    "kind": "tuned", "budget": 0.5, "macs_share": 0.499, "method": "catis", "calibrated": True, "kl": 0.021,
    "agreement": 0.944, "agreement_low": 0.92, "agreement_high": 0.961, "n": 500, "recipe": "0.5",
}  # fmt: skip
TUNED = {
    "model": "VisionTransformer", "command": "catis tune deit_tiny_patch16_224 --budget 0.5", "minutes": 3.2,
    "n": {"fit": 256, "choose": 128, "judge": 500}, "tried": [{}] * 7, "versions": {"catis": "0.1", "torch": "2.13"},
    "said": ["The images that judge chose nothing."], "complete": True,
    "points": [
        POINT,
        {**POINT, "kind": "smaller image", "method": "vanilla", "calibrated": False, "agreement": 0.81, "recipe": ""},
        {**POINT, "kind": "constant r", "calibrated": False, "agreement": 0.85, "recipe": ""},
        {**POINT, "kind": "vanilla", "budget": 1.0, "macs_share": 1.0, "method": "vanilla", "agreement": 1.0,
         "agreement_low": 0.99, "agreement_high": 1.0, "kl": 0.0, "recipe": ""},
    ],
}  # fmt: skip


def test_a_tune_folder_has_its_page(tmp_path):
    (tmp_path / "tune.json").write_text(json.dumps(TUNED))
    result = run("report", tmp_path, "-o", tmp_path / "r.html")
    assert result.exit_code == 0, result.output
    page = (tmp_path / "r.html").read_text()
    seen = Structure(page)
    assert seen.open == []
    text = "".join(seen.text)
    assert "With 50 % of the multiply-adds the model gives the same class as vanilla on 94.4 % of 500 images" in text
    assert "feeding it a smaller image keeps 81.0 %" in text
    assert "94.4 (92.0-96.1)" in text
    assert page.index("<svg") < page.index("<table")
    assert all(words in text for words in ("constant r", "catis tune deit_tiny_patch16_224", "torch 2.13"))


def test_a_file_of_something_else_is_refused(tmp_path):
    (tmp_path / "tune.json").write_text('{"model": 1}')
    result = run("report", tmp_path, "-o", tmp_path / "r.html")
    assert result.exit_code == 2
    assert "expected a file that `catis tune` wrote" in result.output
