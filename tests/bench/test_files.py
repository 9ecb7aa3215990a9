"""Exported files, timed as they are: beside vanilla's, in one number format or two, in every runtime that reads one."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import timm
import torch
from torch import nn
from typer.testing import CliRunner

import catis
from catis.bench import Protocol, bench_files
from catis.bench.explain import Evidence, explain
from catis.bench.files import read_file
from catis.bench.inside import seconds_of_products
from catis.cli import app
from catis.export import export_onnx, save_program
from catis.export.quantise import quantise_onnx

QUICK = Protocol((1,), warmup=0, rounds=3)


def small() -> nn.Module:
    torch.manual_seed(0)
    options = {"depth": 2, "embed_dim": 32, "num_heads": 2, "img_size": 32, "patch_size": 8}
    return timm.create_model("vit_tiny_patch16_224", **options).eval()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """vanilla.onnx, tome.onnx, tome8.onnx (int8) and tome.pt2 with vanilla.pt2 in folders of their own."""
    place = tmp_path_factory.mktemp("files")
    export_onnx(small(), place / "vanilla.onnx")
    export_onnx(catis.apply(small(), "tome", r=3), place / "tome.onnx")
    quantise_onnx(place / "tome.onnx", place / "tome8.onnx", [np.zeros((1, 3, 32, 32), np.float32)])
    shutil.copy(place / "tome.json", place / "tome8.json")
    (place / "programs").mkdir()
    save_program(small(), place / "programs" / "vanilla.pt2")
    save_program(catis.apply(small(), "tome", r=3), place / "programs" / "tome.pt2")
    return place


@pytest.mark.parametrize("runtime", ["onnxruntime", "openvino"])
def test_a_file_beside_vanilla(runtime: str, folder: Path) -> None:
    pytest.importorskip(runtime)
    report = bench_files([folder / "tome.onnx"], QUICK, vanilla=[folder / "vanilla.onnx"], runtime=runtime, threads=1)
    vanilla, row = report.rows
    assert [(vanilla.method, vanilla.file), (row.method, row.file)] == [
        ("vanilla", "vanilla.onnx"), ("tome", "tome.onnx")
    ]  # fmt: skip
    assert (row.r, row.rounds, row.number_format, row.infer_img_size) == ("3", 3, "float32", 32)
    model = catis.apply(small(), "tome", r=3)
    assert row.infer_gmacs == pytest.approx(catis.gmacs(model))
    assert row.gmacs_ratio == pytest.approx(catis.gmacs(small()) / catis.gmacs(model))
    assert row.efficiency == pytest.approx(row.speedup / row.gmacs_ratio)
    assert row.products_ms + row.rest_ms == pytest.approx(row.lost_ms)
    assert report.rig["chosen_by"].startswith(runtime)


def test_programs_run_in_pytorch(folder: Path) -> None:
    programs = folder / "programs"
    report = bench_files([programs / "tome.pt2"], QUICK, vanilla=[programs / "vanilla.pt2"], threads=1)
    assert [row.file for row in report.rows] == ["vanilla.pt2", "tome.pt2"]
    assert report.rig["runtime"] == "torch"
    assert report.rows[1].roofline_speedup is None  # PyTorch has no profile of a program's nodes here


def test_int8_beside_float_says_so(folder: Path) -> None:
    assert read_file(folder / "tome8.onnx").number_format == "int8"
    report = bench_files([folder / "tome8.onnx"], QUICK, vanilla=[folder / "vanilla.onnx"], threads=1)
    row = report.rows[1]
    assert row.number_format == "int8"
    assert any("int8 beside float32" in reason for reason in row.reasons)
    assert not row.suspicious


def test_formats_that_differ_are_no_sign_of_a_slow_baseline() -> None:
    fast = {"batch_size": 1, "vanilla": 0.02, "reduced": 0.005, "mac_ratio": 2.0, "speedup": 4.0}
    assert "above 1.1" in explain(Evidence(**fast))[0]
    assert "above 1.1" not in explain(Evidence(**fast, formats="int8 beside float32"))[0]


def test_products_are_a_part_of_the_pass(folder: Path) -> None:
    images = torch.zeros(1, 3, 32, 32)
    found = seconds_of_products(folder / "vanilla.onnx", "onnxruntime", images, 1)
    assert 0 < found < 0.1


def test_the_command(folder: Path, tmp_path: Path) -> None:
    call = ["bench", str(folder / "tome.onnx"), "--vanilla", str(folder / "vanilla.onnx"), "--batch-size", "2"]
    extra = ["--with", str(folder / "tome8.onnx"), "--num-bench-iter", "3", "--threads", "1"]
    found = CliRunner().invoke(app, [*call, *extra, "-o", str(tmp_path / "rows.csv")], env={"COLUMNS": "200"})
    assert found.exit_code == 0, found.output
    assert "tome8.onnx: tome r=3, int8" in found.output
    rows = list(csv.DictReader((tmp_path / "rows.csv").open()))
    assert [row["file"] for row in rows] == ["vanilla.onnx", "tome.onnx", "tome8.onnx"]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (["tome.onnx", "-r", "3"], "-r was given, but tome.onnx is timed as it was exported"),
        (["tome.onnx", "--runtime", "torch"], "tome.onnx is not run by torch: expected onnxruntime, openvino"),
        (["nothing.onnx"], "nothing.onnx is not there"),
        (["tiny-6", "--vanilla", "vanilla.onnx"], "--vanilla was given, but tiny-6 is no exported file"),
        (["tome.onnx"], "give its file with --vanilla"),
        (["old.onnx"], "export the model again"),
    ],
)
def test_what_cannot_be_timed(call: list[str], said: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    shutil.copy("tome.onnx", "old.onnx")
    old = {key: value for key, value in json.loads(Path("tome.json").read_text()).items() if key != "cost"}
    Path("old.json").write_text(json.dumps(old))
    found = CliRunner().invoke(app, ["bench", *call])
    assert found.exit_code == 2
    assert said in " ".join(found.stderr.split())
