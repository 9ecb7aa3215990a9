"""What `catis tune` makes can be deployed: budgets, calibrated weights, methods that change with the block."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
import timm
import torch
from torch import nn
from typer.testing import CliRunner

import catis
from catis import hosts
from catis.cli import app
from catis.core.reduction import Reduction
from catis.export import export_onnx
from catis.export.runtimes import ort_runner
from catis.hosts.correction import Correction
from tests.hosts.hf_models import build


def tiny() -> nn.Module:
    torch.manual_seed(0)
    options = {"depth": 4, "embed_dim": 32, "num_heads": 2, "img_size": 32, "patch_size": 8, "num_classes": 7}
    return timm.create_model("vit_tiny_patch16_224", **options).eval()


PER_BLOCK = {
    "method": [
        {"method": "tome", "options": {"pooling": "attention"}},
        {"method": "mctf", "options": {}},
        {"method": "catis", "options": {"pooling": "attention"}},
        {"method": "catis", "options": {}},
    ],
    "r": [4, 3, 2, 0],
    "head_only": True,
    "size_gain": [1.0, 1.2, 0.9, 1.1],
}


@pytest.mark.parametrize(
    "how",
    [{"method": "catis", "budget": 0.6}, {"recipe": PER_BLOCK}, {"method": "tome", "r": 2, "input_size": 24}],
    ids=["budget", "methods by block", "smaller image"],
)
def test_every_kind_of_recipe_is_exported(how: dict, tmp_path: Path) -> None:
    report = export_onnx(catis.apply(tiny(), **how), tmp_path / "model.onnx", openvino=True)
    assert report.worst < 1e-4


def test_maximum_pooling_is_refused_in_one_block_too(tmp_path: Path) -> None:
    methods = [{"method": "tome", "options": {}}] * 3 + [{"method": "mctf", "options": {"pooling": "max"}}]
    with pytest.raises(ValueError, match="pooling='max' is not exported"):
        export_onnx(catis.apply(tiny(), recipe={"method": methods, "r": 2}), tmp_path / "model.onnx")


def test_calibrated_weights_are_in_the_file(tmp_path: Path) -> None:
    model = build("ViTForImageClassification")
    model.save_pretrained(tmp_path / "saved")
    handle = hosts.find(model)
    vanilla = handle.vanilla_weights
    reduction = handle.bind(Reduction.of("catis", budget=0.6))
    values = {"classifier.bias": vanilla["classifier.bias"] + 1.0}
    calibrated = catis.apply(model, reduction, correction=Correction.fitted(values, reduction, vanilla))
    catis.save_recipe(calibrated, tmp_path / "recipe")
    target = tmp_path / "m.onnx"
    call = ["export", str(tmp_path / "saved"), "--recipe", str(tmp_path / "recipe"), "--onnx", str(target)]
    done = CliRunner().invoke(app, call)
    assert done.exit_code == 0, done.output
    images = torch.randn(3, 3, 32, 32)
    with torch.no_grad():
        expected = calibrated(images).logits
    torch.testing.assert_close(torch.from_numpy(ort_runner(target)(images)), expected, rtol=0, atol=1e-4)
    assert json.loads(target.with_suffix(".json").read_text())["calibrated"] is True
    assert any(entry.key == "catis.calibrated" and entry.value == "true" for entry in onnx.load(target).metadata_props)
    again = catis.apply(catis.remove(model), recipe=tmp_path / "m.recipe.json")
    with torch.no_grad():
        assert torch.equal(again(images).logits, expected)
