"""`catis bench` end to end on a small model: what it prints, writes and refuses."""

import csv
import json
import os

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from catis.bench import PRESETS, Precision, Protocol, Settings, bench_model
from catis.bench.variants import VANILLA
from catis.cli import app
from catis.cli.bench import _protocol
from catis.core.reduction import Reduction
from catis.core.schedule import Schedule
from catis.zoo import load

QUICK = ("--batch-size", "2", "--num-bench-iter", "3", "--num-warm-iter", "0", "--device", "cpu", "--threads", "1")


def run(*arguments: object):
    return CliRunner().invoke(app, ["bench", *map(str, arguments)], env={"COLUMNS": "220"})


def test_rows_reasons_and_results_file(tmp_path):
    file = tmp_path / "rows.csv"
    result = run("tiny-6", "-m", "tome,mctf", "-r", 5, *QUICK, "--batch-size", "1,2", "--results-file", file)
    assert result.exit_code == 0, result.output
    table = list(csv.DictReader(file.open()))
    assert [(line["infer_batch_size"], line["method"], line["r"]) for line in table] == [
        (batch, method, r) for batch in ("1", "2") for method, r in [("vanilla", "0"), ("tome", "5"), ("mctf", "5")]
    ]
    for line in table:
        assert float(line["p50_ms"]) <= float(line["p90_ms"]) <= float(line["p99_ms"])
        assert float(line["efficiency"]) == pytest.approx(float(line["speedup"]) / float(line["gmacs_ratio"]), rel=1e-3)
        assert float(line["peak_memory_mb"]) > 0
        assert float(line["roofline_speedup"]) > 0
        assert (line["rounds"], line["threads"], line["precision"]) == ("3", "1", "float32")
        parts = ("products_ms", "choosing_ms", "merging_ms", "bias_ms", "rest_ms")
        if line["method"] != "vanilla":
            assert sum(float(line[name]) for name in parts) == pytest.approx(float(line["lost_ms"]), abs=0.01)
    for word in ("efficiency", "roofline", "1 threads", "of it map", "p99 of 3 passes"):
        assert word in result.output
    assert "random weights" not in result.output


def test_a_timm_model_has_random_weights_and_says_so(tmp_path):
    file = tmp_path / "rows.json"
    result = run("test_vit", "-m", "tome", *QUICK, "--img-size", 96, "--no-causes", "--results-file", file)
    assert result.exit_code == 0, result.output
    assert "test_vit has random weights, which are as fast as trained ones" in result.output
    assert "of it map" not in result.output
    found = json.loads(file.read_text())
    assert found["rows"][0]["infer_img_size"] == 96
    assert found["rig"]["torch"] == torch.__version__


def test_precision_and_data(tmp_path):
    Image.fromarray(np.zeros((96, 96, 3), np.uint8)).save(tmp_path / "one.png")
    file = tmp_path / "rows.json"
    result = run("tiny-6", "-m", "tome", *QUICK, "--amp", "--data", tmp_path, "-j", 1, "--results-file", file)
    assert result.exit_code == 0, result.output
    found = json.loads(file.read_text())
    assert found["rig"]["precision"] == "amp_bfloat16"
    assert all(row["reading_ms"] > 0 for row in found["rows"])


BAD = [
    (["tiny-7"], "model 'tiny-7' is neither in timm nor in the zoo"),
    (["resnet18"], "no Vision Transformer found in ResNet"),
    (["tiny-6", "-m", "topk"], "--method topk: expected catis"),
    (["tiny-6", "-r", "many"], "-r many: expected a number"),
    (["tiny-6", "--batch-size", "1,x"], "--batch-size 1,x: expected numbers"),
    (["tiny-6", "--batch-size", "0"], "expected at least one image each"),
    (["tiny-6", "--preset", "ours"], "--preset ours: expected one of quick, paper, timm"),
    (["tiny-6", "--no-eager"], "neither eager nor compiled rows"),
    (["tiny-6", "--model-dtype", "int8"], "model_dtype='int8': expected one of float32"),
    (["tiny-6", "--amp", "--model-dtype", "bfloat16"], "autocast is for float32 weights"),
    (["tiny-6", "--device", "toaster"], "device='toaster' cannot be used here; expected cpu, cuda"),
    (["tiny-6", "--img-size", "64"], "fixed shape"),
    (["tiny-6", "--results-file", "rows.xls"], "ends in .csv or .json"),
    (["tiny-6", "--data", "nowhere"], "no images in nowhere"),
    (["tiny-6", "--checkpoint", "weights.ckpt"], "expected a .safetensors file"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD, ids=[" ".join(case[0]) for case in BAD])
def test_bad_input_is_one_line_and_code_2(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.splitlines()[-1].startswith("error: ")
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
def test_no_cuda_device():
    with pytest.raises(ValueError, match="cannot be used here"):
        Settings(("tome",), device="cuda")


def test_presets_and_what_overrides_them():
    assert PRESETS["paper"] == Protocol((64,), 50, 200, None)
    assert PRESETS["timm"] == Protocol((256,), 10, 40, None)
    assert _protocol("paper", None, None, None, None) == PRESETS["paper"]
    assert _protocol("paper", ["1,8", "2"], 3, None, 9.0) == Protocol((1, 8, 2), 3, 200, 9.0)
    assert _protocol("quick", None, None, None, 0.0).max_seconds is None


def test_batches_depend_on_the_device_and_are_sorted():
    assert Settings(("tome",)).batch_sizes == (1, 8)
    assert Settings(("tome",), protocol=Protocol((8, 1, 8))).batch_sizes == (1, 8)


# what may go wrong on the way


def small(**changes):
    return Settings(("tome", "tofu"), (5,), Protocol((2,), rounds=3), threads=1, causes=False, **changes)


def test_a_batch_that_does_not_fit_is_told_and_the_others_go_on():
    settings = Settings(("tome",), (5,), Protocol((1, 10**12), rounds=3), threads=1)
    rows = bench_model(load("tiny-6"), settings).rows
    assert [row.error for row in rows] == ["", "", "out of memory", "out of memory"]
    assert rows[1].speedup is not None


def test_compiled_rows_are_compared_with_compiled_vanilla(monkeypatch):
    def compile_model(model):
        def compiled(images):
            if hasattr(model, "catis_reduction") and model.catis_reduction.method.name == "tofu":
                raise RuntimeError("no compiler\nand a long trace")
            return model(images)

        return compiled

    monkeypatch.setattr("catis.bench.cases.compile_model", compile_model)
    rows = bench_model(load("tiny-6"), small(compiled=(False, True))).rows
    assert [(row.method, row.torchcompile) for row in rows] == [
        (name, compiled) for compiled in (False, True) for name in ("vanilla", "tome", "tofu")
    ]
    assert [row.error for row in rows[3:]] == ["", "", "torch.compile failed: no compiler"]
    assert rows[4].compile_seconds > 0
    assert rows[0].compile_seconds is None


def test_the_model_is_left_as_it_was():
    model = load("tiny-6")
    before = {name: value.clone() for name, value in model.state_dict().items()}
    bench_model(model, small(precision=Precision("bfloat16")))
    assert type(model).__name__ == "VisionTransformer"
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_progress_goes_from_nothing_to_nearly_all():
    told = []
    bench_model(load("tiny-6"), small(), progress=lambda what, share: told.append((what, share)))
    shares = [share for _, share in told]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1] <= 1.0) == (0.0, True)
    assert told[0][0] == "building"


def test_amounts_keep_their_spelling():
    for text in ("13", "0.1", "8,4,2", "8:-1"):
        assert str(Reduction.of("tome", Schedule.from_text(text)).schedule) == text
    assert Reduction.of("tome", 0) != VANILLA
