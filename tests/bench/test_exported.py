"""Exported files, timed as PyTorch's models are."""

from __future__ import annotations

import pytest
import timm
import torch

from catis.bench import Precision, Protocol, Settings, bench_model

QUICK = Protocol((1, 2), rounds=3)


@pytest.mark.parametrize("runtime", ["onnxruntime", "openvino"])
def test_rows_of_exported_files(runtime: str) -> None:
    pytest.importorskip(runtime)
    torch.manual_seed(0)
    options = {"depth": 2, "embed_dim": 32, "num_heads": 2, "img_size": 32, "patch_size": 8}
    model = timm.create_model("vit_tiny_patch16_224", **options).eval()
    report = bench_model(model, Settings(("tome",), (3,), QUICK, threads=1, runtime=runtime))
    assert [(row.method, row.infer_batch_size, row.rounds) for row in report.rows] == [
        ("vanilla", 1, 3), ("tome", 1, 3), ("vanilla", 2, 3), ("tome", 2, 3)
    ]  # fmt: skip
    assert all(row.speedup > 0 and row.roofline_speedup is None for row in report.rows)
    assert report.rig["runtime"] == runtime
    assert report.rig["chosen_by"].startswith(runtime)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"runtime": "tensorrt"}, "expected one of torch, onnxruntime, openvino"),
        ({"runtime": "onnxruntime", "compiled": (True,)}, "not compiled by PyTorch"),
        ({"runtime": "openvino", "precision": Precision("bfloat16")}, "in float32 here"),
    ],
)
def test_what_exported_files_are_not_timed_in(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Settings(("tome",), **wrong)
