"""Reduced models out of PyTorch: programs and ONNX files that compute the same, or no file at all."""

from __future__ import annotations

import copy
import re
from pathlib import Path

import onnx
import pytest
import timm
import torch
from torch import nn
from typer.testing import CliRunner

import catis
from catis.bench.files import load_file
from catis.cli import app
from catis.errors import MissingExtraError, require
from catis.export import ExportMismatchError, check, export_onnx, export_program, onnx_file, save_program
from catis.export.program import INPUT
from catis.export.runtimes import openvino_settings, ort_runner, runtime_errors
from tests.export.operators import misfits
from tests.hosts.hf_models import build

METHODS = ("tome", "tofu", "pitome", "mctf", "catis", "cluster")


def tiny_timm() -> nn.Module:
    torch.manual_seed(0)
    options = {"depth": 4, "embed_dim": 32, "num_heads": 2, "img_size": 32, "patch_size": 8, "num_classes": 7}
    return timm.create_model("vit_tiny_patch16_224", **options).eval()


def tiny(host: str) -> nn.Module:
    return tiny_timm() if host == "timm" else build("ViTForImageClassification")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("host", ["timm", "transformers"])
def test_onnx_with_a_free_batch_in_onnx_runtime(host: str, method: str, tmp_path: Path) -> None:
    model = catis.apply(tiny(host), method, r=3)
    report = export_onnx(model, tmp_path / "model.onnx")
    assert {found.batch for found in report.comparisons} == {1, 2, 3, 5}
    assert report.worst < 1e-4
    assert report.output == "logits"
    images = torch.randn(7, 3, 32, 32)
    with torch.no_grad():
        expected = model(images)
    expected = expected if isinstance(expected, torch.Tensor) else expected.logits
    torch.testing.assert_close(torch.from_numpy(ort_runner(report.path)(images)), expected, rtol=0, atol=1e-4)
    assert misfits(onnx.load(report.path)) == []


@pytest.mark.parametrize(("host", "method"), [("timm", "catis"), ("transformers", "pitome")])
def test_onnx_with_a_fixed_batch(host: str, method: str, tmp_path: Path) -> None:
    model = catis.apply(tiny(host), method, r=3)
    report = export_onnx(model, tmp_path / "model.onnx", input_shape=(3, 3, 32, 32), dynamic_batch=False)
    assert [found.batch for found in report.comparisons] == [3, 3, 3]
    entry = onnx.load(report.path).graph.input[0]
    assert entry.name == INPUT
    assert [dim.dim_value for dim in entry.type.tensor_type.shape.dim] == [3, 3, 32, 32]


@pytest.mark.parametrize("method", ["tofu", "catis"])
def test_openvino_runs_the_same_file(method: str, tmp_path: Path) -> None:
    pytest.importorskip("openvino")
    model = catis.apply(tiny_timm(), method, r=3)
    report = export_onnx(model, tmp_path / "model.onnx", openvino=True)
    assert any("OpenVINO" in found.runtime for found in report.comparisons)


def test_openvino_may_be_told_the_batch(tmp_path: Path) -> None:
    """Then shapes are known when it is loaded, and no other number of images is taken."""
    pytest.importorskip("openvino")
    model = catis.apply(tiny_timm(), "cluster", r=3)
    onnx_file.convert(model, tmp_path / "model.onnx")
    run = load_file(tmp_path / "model.onnx", "openvino", 1, 2)
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(torch.from_numpy(run(images)), model(images), rtol=0, atol=1e-4)
    with pytest.raises(runtime_errors()):
        run(torch.randn(3, 3, 32, 32))


@pytest.mark.parametrize("method", ["tome", "catis", "cluster"])
def test_openvino_fuses_the_attention_of_every_block(method: str, tmp_path: Path) -> None:
    """A second reader of the softmaxed map, or of the logits, would make it run as single products."""
    openvino = pytest.importorskip("openvino")

    def maps(model: nn.Module) -> int:
        onnx_file.convert(model, tmp_path / "model.onnx")
        settings = openvino_settings(1)
        running = openvino.Core().compile_model(tmp_path / "model.onnx", "CPU", settings).get_runtime_model().get_ops()
        softmaxes = [node for node in running if node.get_rt_info()["layerType"] == "Softmax"]
        return sum(node.get_output_partial_shape(0).rank.get_length() == 4 for node in softmaxes)

    if maps(tiny_timm()):
        pytest.skip("OpenVINO does not fuse vanilla's attention on this processor")
    assert maps(catis.apply(tiny_timm(), method, r=3)) == 0


@pytest.mark.parametrize("name", ["DINOv3ViTModel", "VideoMAEForVideoClassification", "SiglipVisionModel"])
def test_rope_video_and_probe_export_too(name: str, tmp_path: Path) -> None:
    model = catis.apply(build(name), "catis", r=3)
    report = export_onnx(model, tmp_path / "model.onnx")
    assert report.worst < 1e-4
    assert report.output == ("logits" if "Video" in name else "pooler_output")


@pytest.mark.parametrize("host", ["timm", "transformers"])
@pytest.mark.parametrize("method", METHODS)
def test_torch_export_leaves_the_model_as_it_was(host: str, method: str, tmp_path: Path) -> None:
    model = catis.apply(tiny(host), method, r=3)
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        before = copy.deepcopy(model)(images)
        report = save_program(model, tmp_path / "model.pt2")
        after = model(images)
    assert report.worst < 1e-5
    pair = (before, after) if host == "timm" else (before.logits, after.logits)
    assert torch.equal(*pair)


def test_a_file_that_computes_something_else_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = catis.apply(tiny_timm(), "tome", r=3)
    honest = onnx_file.ort_runner
    monkeypatch.setattr(onnx_file, "ort_runner", lambda path: lambda pixels: honest(path)(pixels) + 2e-4)
    with pytest.raises(ExportMismatchError, match=r"ONNX Runtime .* differ by 2\.\d+e-04 .* nothing was written"):
        export_onnx(model, tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


def test_nan_is_a_difference() -> None:
    net = nn.Linear(2, 2)
    with pytest.raises(ExportMismatchError):
        check.check(net, {"broken": lambda pixels: net(pixels) * float("nan")}, [(1, 2)], 1e-4)


def test_training_mode_is_refused() -> None:
    with pytest.raises(ValueError, match="training mode"):
        export_program(tiny_timm().train())


def test_a_missing_extra_names_the_pip_command() -> None:
    with pytest.raises(MissingExtraError, match=r"pip install 'catis\[export\]'"):
        require("ONNX export", "export", "no_such_package")


def test_the_command(tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    model = build("ViTForImageClassification")
    model.save_pretrained(saved)
    target = tmp_path / "model.onnx"
    found = CliRunner().invoke(
        app, ["export", str(saved), "--onnx", str(target), "-m", "tome", "-r", "3", "--batch", "2"]
    )
    assert found.exit_code == 0, found.output
    assert "done:" in found.output
    assert target.exists()
    assert (tmp_path / "model.recipe.json").exists()
    wrong = ["export", str(saved), "--onnx", str(tmp_path / "no.onnx"), "-r", "3", "--tolerance", "0", "--batch", "2"]
    refused = CliRunner().invoke(app, wrong)
    assert refused.exit_code == 2
    assert "nothing was written" in refused.output
    assert "done:" not in refused.output
    assert not (tmp_path / "no.onnx").exists()
    assert "nothing to write" in CliRunner().invoke(app, ["export", str(saved), "-r", "3"]).output


@pytest.mark.parametrize(
    ("files", "why"),
    [
        (["-o", "a.engine"], "expected a name that ends in .onnx, .xml, .pt2"),
        (["-o", "a.onnx", "--onnx", "b.onnx"], "two names for one .onnx file"),
        (["-o", "a.pt2", "--program", "b.pt2"], "two names for one .pt2 file"),
    ],
)
def test_output_says_by_its_ending_what_is_written(tmp_path, monkeypatch, files, why):
    monkeypatch.chdir(tmp_path)
    refused = CliRunner().invoke(app, ["export", "tiny-6", "-r", "3", *files])
    assert (refused.exit_code, why in refused.output) == (2, True), refused.output
    assert not list(tmp_path.iterdir())


def test_output_is_the_option_of_its_kind(tmp_path):
    done = CliRunner().invoke(app, ["export", "tiny-6", "-r", "3", "-o", str(tmp_path / "reduced.pt2")])
    assert done.exit_code == 0, done.output
    assert sorted(file.name for file in tmp_path.iterdir()) == ["reduced.json", "reduced.pt2", "reduced.recipe.json"]


def test_mctf_with_maximum_pooling_says_that_it_is_not_exported(tmp_path: Path) -> None:
    model = catis.apply(tiny_timm(), "mctf", r=3, pooling="max")
    with pytest.raises(ValueError, match=r"pooling='max' is not exported to ONNX.*use pooling='attention'"):
        export_onnx(model, tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(torch.__version__ < "2.15", reason="earlier exporters write other nodes")
@pytest.mark.parametrize(("method", "most"), [("tome", 53), ("catis", 108), ("cluster", 100)])
def test_a_reducing_block_has_few_nodes(method: str, most: int, tmp_path: Path) -> None:
    """Every node costs a call, whatever it computes; a vanilla block has 26 of them."""
    counts = {}
    for name in ("vanilla", method):
        model = tiny_timm() if name == "vanilla" else catis.apply(tiny_timm(), method, r=3)
        onnx_file.convert(model, tmp_path / "model.onnx")
        counts[name] = onnx_file.operators(tmp_path / "model.onnx")
    assert sum(counts["vanilla"].values()) <= 26 * 4 + 10
    assert sum(counts[method].values()) - sum(counts["vanilla"].values()) <= most * 4
    if method == "catis":
        text = (Path(__file__).parents[2] / "docs" / "export.md").read_text()
        (listed,) = re.findall(r"A graph under CATIS uses:\n\n```\n(.*?)```", text, re.DOTALL)
        assert set(counts[method]) <= set(listed.split())
