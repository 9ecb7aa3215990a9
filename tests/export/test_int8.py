"""int8 files: what is quantised, on which images it is judged, and when no file is written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import timm
import torch
from PIL import Image
from torch import nn
from typer.testing import CliRunner

import catis
from catis import errors
from catis.cli import app
from catis.data.images import ImageFolder, NoImagesError
from catis.data.preprocessing import Preprocessing
from catis.export import Split, Wanted, deploy, int8, split_images
from catis.export.float_parts import products_with_weights
from catis.export.int8 import AgreementError
from catis.export.onnx_file import convert
from catis.export.quantise import quantise_onnx, quantise_openvino
from catis.export.runtimes import RuntimeLoadError, openvino_runner, ort_runner
from tests.hosts.hf_models import build

DEPTH = 2
LAYERS = 4 * DEPTH + 2
"""qkv, output and two of the MLP in each block; patch embedding and head."""


def tiny() -> nn.Module:
    torch.manual_seed(0)
    options = {"depth": DEPTH, "embed_dim": 32, "num_heads": 2, "img_size": 32, "patch_size": 8, "num_classes": 7}
    return timm.create_model("vit_tiny_patch16_224", **options).eval()


def pictures(count: int, seed: int = 0) -> list[np.ndarray]:
    source = np.random.default_rng(seed)
    return [source.normal(size=(1, 3, 32, 32)).astype(np.float32) for _ in range(count)]


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, source = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    for number in range(12):
        Image.fromarray(source.integers(0, 256, (40, 48, 3), dtype=np.uint8)).save(folder / f"{number}.png")
    return folder


@pytest.fixture(scope="module")
def reduced(tmp_path_factory: pytest.TempPathFactory) -> tuple[nn.Module, Path]:
    """A reduced model and its float file."""
    model, path = catis.apply(tiny(), "catis", r=3), tmp_path_factory.mktemp("float") / "float.onnx"
    convert(model, path)
    return model, path


def test_products_with_weights_and_nothing_else_become_int8(reduced: tuple[nn.Module, Path], tmp_path: Path) -> None:
    model, path = reduced
    assert len(products_with_weights(onnx.load(path).graph)) == LAYERS
    assert quantise_onnx(path, tmp_path / "int8.onnx", pictures(4)) == LAYERS
    graph = onnx.load(tmp_path / "int8.onnx").graph
    readers = [node for node in graph.node for name in node.input if name.endswith("_DequantizeLinear_Output")]
    assert {node.op_type for node in readers} == {"MatMul", "Gemm", "Conv"}  # scores read features that are not rounded
    assert len({node.name for node in readers}) == LAYERS
    images = torch.from_numpy(np.concatenate(pictures(3, seed=1)))
    with torch.no_grad():
        exact = model(images)
    rough = torch.from_numpy(ort_runner(tmp_path / "int8.onnx")(images))
    assert 0 < (rough - exact).norm() < 0.3 * exact.norm()


@pytest.mark.parametrize("batch", [None, 2])
def test_onnx_runtime_runs_products_in_int8(batch: int | None, tmp_path: Path) -> None:
    """With a fixed batch it would make a Gemm in float of a product and its bias."""
    model = catis.apply(tiny(), "tome", r=2)
    convert(model, tmp_path / "model.onnx", None if batch is None else (batch, 3, 32, 32), batch is None)
    quantise_onnx(tmp_path / "model.onnx", tmp_path / "int8.onnx", pictures(4), batch or 1)
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "run.onnx")
    onnxruntime.InferenceSession(tmp_path / "int8.onnx", options)
    kinds = [node.op_type for node in onnx.load(tmp_path / "run.onnx").graph.node]
    assert kinds.count("MatMulIntegerToFloat") == LAYERS - 2  # all but the patch embedding and the head
    images = torch.from_numpy(np.concatenate(pictures(2, seed=1)))
    with torch.no_grad():
        exact = model(images)
    rough = torch.from_numpy(ort_runner(tmp_path / "int8.onnx")(images))
    assert 0 < (rough - exact).norm() < 0.3 * exact.norm()


def test_parts_of_a_large_matrix_are_stored(tmp_path: Path) -> None:
    """A budget's last block reads two parts of qkv, which the exporter itself folds only where they are small."""
    options = {"depth": 2, "embed_dim": 192, "num_heads": 3, "img_size": 32, "patch_size": 8, "num_classes": 7}
    model = catis.apply(timm.create_model("vit_tiny_patch16_224", **options).eval(), "tome", budget=0.7)
    convert(model, tmp_path / "model.onnx")
    assert len(products_with_weights(onnx.load(tmp_path / "model.onnx").graph)) == LAYERS + 1


def test_nncf_quantises_the_same_products(reduced: tuple[nn.Module, Path], tmp_path: Path) -> None:
    pytest.importorskip("nncf")
    model, path = reduced
    assert quantise_openvino(path, tmp_path / "int8.xml", pictures(4)) == LAYERS
    openvino = pytest.importorskip("openvino")
    operations = openvino.Core().read_model(tmp_path / "int8.xml").get_ops()
    fake = [node for node in operations if node.get_type_name() == "FakeQuantize"]
    readers = {entry.get_node().get_type_name() for node in fake for entry in node.output(0).get_target_inputs()}
    assert readers <= {"MatMul", "Convolution", "ShapeOf"}  # no Multiply that smooths; a shape is no rounding
    images = torch.from_numpy(np.concatenate(pictures(3, seed=1)))
    with torch.no_grad():
        exact = model(images)
    rough = torch.from_numpy(openvino_runner(tmp_path / "int8.xml")(images))
    assert 0 < (rough - exact).norm() < 0.3 * exact.norm()


def test_copies_of_an_image_are_on_one_side(photos: Path, tmp_path: Path) -> None:
    for file in photos.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
        (tmp_path / f"copy of {file.name}").write_bytes(file.read_bytes())
    (tmp_path / "broken.png").write_bytes(b"no image")
    split = split_images(ImageFolder(tmp_path, Preprocessing((32, 32))))
    sides = [{image.tobytes() for image in side} for side in (split.calibration, split.held_out)]
    assert len(split.calibration) + len(split.held_out) == 24
    assert len(sides[0]) + len(sides[1]) == 12
    assert not sides[0] & sides[1]
    assert [broken.name for broken in split.broken] == ["broken.png"]


def test_one_image_is_not_enough(tmp_path: Path) -> None:
    Image.new("RGB", (32, 32)).save(tmp_path / "only.png")
    with pytest.raises(NoImagesError, match="expected at least one of each"):
        split_images(ImageFolder(tmp_path, Preprocessing((32, 32))))


def test_int8_that_loses_too_much_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = catis.apply(tiny(), "tome", r=2)
    wrong = int8.Int8Maker(quantise_onnx, lambda path: lambda pixels: -ort_runner(path)(pixels), ".onnx")
    monkeypatch.setattr("catis.export.writing.ONNX_RUNTIME", wrong)
    wanted = Wanted(tmp_path / "model.onnx", images=Split(pictures(4), pictures(6, seed=1)))
    with pytest.raises(
        AgreementError, match=r"int8 agrees with vanilla on .* points lost, more than 2; it was not written"
    ):
        list(deploy(model, wanted))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("run", "name"), [(ort_runner, "ONNX Runtime"), (openvino_runner, "OpenVINO")])
def test_a_file_that_a_runtime_cannot_load(run: Callable[[Path], object], name: str, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"no model")
    with pytest.raises(RuntimeLoadError, match=rf"{name} cannot load model\.onnx"):
        run(tmp_path / "model.onnx")


def test_a_model_that_a_runtime_cannot_load_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def spoiled(path: Path) -> Callable[[torch.Tensor], object]:
        path.write_bytes(path.read_bytes()[:1000])
        return ort_runner(path)

    monkeypatch.setattr("catis.export.onnx_file.ort_runner", spoiled)
    found = CliRunner().invoke(app, ["export", "tiny-6", "-r", "3", "--onnx", "m.onnx"])
    assert found.exit_code == 2
    assert "ONNX Runtime cannot load" in found.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_command(photos: Path, tmp_path: Path) -> None:
    model = build("ViTForImageClassification")
    model.save_pretrained(tmp_path / "saved")
    call = ["export", str(tmp_path / "saved"), "--onnx", str(tmp_path / "m.onnx"), "-m", "catis", "-r", "3", "--int8"]
    done = CliRunner().invoke(app, [*call, "--data", str(photos), "--max-drop", "100", "--layout", "triton"])
    assert done.exit_code == 0, done.output
    assert "reduced int8" in done.output
    assert "vanilla int8" in done.output
    beside = json.loads((tmp_path / "m.json").read_text())
    found = onnx.load(tmp_path / "m.onnx").metadata_props
    inside = {entry.key: json.loads(entry.value) for entry in found if entry.key.startswith("catis.")}
    assert inside["catis.preprocessing"] == beside["preprocessing"]
    assert inside["catis.labels"] == beside["labels"]
    assert beside["recipe"]["method"] == "catis"
    assert (tmp_path / "m_triton" / "m" / "1" / "model.onnx").read_bytes() == (tmp_path / "m.onnx").read_bytes()
    assert not list(tmp_path.glob(".catis-export-*"))


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        (["--int8"], "--int8 was given without --data"),
        (["--data", "photos"], "--data was given without --int8"),
        (["--int8", "--data", "empty"], "no images in empty"),
        (["--repository", "r"], "without --layout"),
        (["--batch", "100000000"], "take at most"),
    ],
)
def test_what_cannot_be_done_is_said(
    extra: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    found = CliRunner().invoke(app, ["export", "tiny-6", "-r", "3", "--onnx", "m.onnx", *extra])
    assert found.exit_code == 2
    assert said in found.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]


def test_a_quantiser_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    real = errors.find_spec
    monkeypatch.setattr(errors, "find_spec", lambda name: None if name == "nncf" else real(name))
    (tmp_path / "photos").mkdir()
    call = ["export", "tiny-6", "-r", "3", "--ir", "m.xml", "--int8", "--data", "photos"]
    found = CliRunner().invoke(app, call)
    assert found.exit_code == 2
    assert "pip install 'catis[openvino]'" in found.stderr


@pytest.mark.parametrize(("quantise", "ending"), [(quantise_onnx, ".onnx"), (quantise_openvino, ".xml")])
def test_a_product_that_int8_would_ruin_stays_float(quantise: Callable[..., int], ending: str, tmp_path: Path) -> None:
    """One channel is huge, as in trained models, and the next layer hardly reads it: one step is more than the rest."""
    if ending == ".xml":
        pytest.importorskip("nncf")
    model, path = tiny(), tmp_path / "float.onnx"
    with torch.no_grad():
        model.blocks[0].mlp.fc1.bias[0] = 5000.0
        model.blocks[0].mlp.fc2.weight[:, 0] = 0.0
    convert(model, path)
    assert quantise(path, tmp_path / f"int8{ending}", pictures(4)) == LAYERS - 1
