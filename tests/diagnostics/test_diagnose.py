"""The workflow and its command on small models: every part there, the model as it was, failures told clearly."""

import json
import math
import os
import signal
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
import timm
import torch
from PIL import Image
from safetensors.torch import save_file
from typer.testing import CliRunner

import catis
from catis.cli import app
from catis.data.preprocessing import Preprocessing
from catis.diagnostics.report import rows
from catis.errors import CatisError
from catis.health.check import diagnose
from catis.health.critical_r import measure_critical_r
from catis.report.chart import draw
from catis.report.diagnosis import diagnosis_panels

torch.set_num_threads(1)
SMALL = Preprocessing((64, 64), 1.0)


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return timm.create_model("vit_tiny_patch16_224", img_size=64, depth=5, num_classes=7).eval()


@pytest.fixture(scope="module")
def images():
    return list(np.random.default_rng(0).integers(0, 256, (6, 64, 64, 3), dtype=np.uint8))


@pytest.fixture(scope="module")
def found(model, images):
    return diagnose(model, images, method="catis", r=2, tau=0.3, batch_size=4, preprocessing=SMALL)


def test_every_layer_has_every_number(found):
    table = rows(found)
    assert len(table) == found.depth == 5
    assert found.num_patches == 16
    wanted = {"rho_s pairwise", "rho_s pool", "rho_s s_nf", "rho_s s_cls", "rho_s fused", "rho_s l2", "rho_s euclidean"}
    wanted |= {"delta_F", "rho_off vanilla", "rho_off reduced", "chance reduced", "excess reduced", "distortion"}
    assert all(wanted | {"merge_only", "evict_only"} <= row.keys() for row in table)
    assert all(math.isfinite(row[name]) for row in table for name in wanted)
    assert [row["tokens reduced"] for row in table] == [14, 12, 10, 8, 6]
    assert found.n == 6
    assert found.dual is not None
    assert found.amplifier.beta > 0


def test_batch_size_and_workers_do_not_change_it(model, images, found):
    again = diagnose(model, images, method="catis", r=2, tau=0.3, batch_size=1, workers=2, preprocessing=SMALL)
    for a, b in zip(rows(found), rows(again), strict=True):
        np.testing.assert_allclose(list(a.values()), list(b.values()), atol=1e-5)
    assert again.verdict.state == found.verdict.state


def test_the_model_comes_back_as_it_was(model, images):
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with catis.applied(model, "tome", r=1):
        model.train()
        reduction = model.catis_reduction
        diagnose(model, images[:2], r=2, preprocessing=SMALL)
        assert model.catis_reduction is reduction
        assert model.training
        model.eval()
    assert type(model).__name__ == "VisionTransformer"
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("method", ["tome", "tofu", "pitome", "mctf"])
def test_every_method(model, images, method):
    found = diagnose(model, images[:3], method=method, r=2, preprocessing=SMALL)
    inputs = SMALL.normalise(images[:3])
    with torch.inference_mode():
        vanilla = model(inputs).argmax(-1)
        with catis.applied(model, method, r=2):
            stayed = (model(inputs).argmax(-1) == vanilla).double().mean().item()
    assert found.agreement.mean == pytest.approx(stayed)
    assert 0 <= found.agreement.low <= found.agreement.high <= 1
    assert (found.verdict.state == "too few images to tell") == (stayed > 0.5)  # of three, two flips are a collapse
    assert (found.r_crit_predicted is None) or stayed < 1
    assert [row["tokens reduced"] for row in rows(found)] == [14, 12, 10, 8, 6]
    assert (found.dual is not None) == (method == "tofu")  # the only one of these that merges and evicts


def test_a_model_without_cls_or_classifier(images):
    options = {"class_token": False, "global_pool": "avg", "num_classes": 0}
    model = timm.create_model("vit_tiny_patch16_224", img_size=64, depth=4, **options)
    found = diagnose(model, images[:3], preprocessing=SMALL)
    assert found.agreement is None
    assert found.r_crit_predicted is None
    assert "s_cls" not in found.consistency
    assert found.r == "r=2"  # 16 patches, half of them gone over 4 blocks
    json.dumps(found.to_dict(), allow_nan=False)


def test_batches_are_refused_with_a_sentence(model, images):
    loader = torch.utils.data.DataLoader([torch.zeros(3, 64, 64)] * 4, batch_size=2)
    with pytest.raises(ValueError, match="data is a DataLoader: expected a folder or a sequence of uint8"):
        diagnose(model, loader, preprocessing=SMALL)
    with pytest.raises(ValueError, match="data is a list_iterator"):
        diagnose(model, iter(images), preprocessing=SMALL)


def test_one_image_and_so_many_tokens_gone_that_one_is_left(model, images):
    found = diagnose(model, images[:1], method="tome", r=8, preprocessing=SMALL)
    assert found.reduced["tokens"][-1].mean == 1
    assert found.reduced["rho_off"][-1].n == 0  # one token has no correlation
    assert math.isnan(rows(found)[-1]["matched"])
    json.dumps(found.to_dict(), allow_nan=False)
    ElementTree.fromstring(draw(diagnosis_panels(found), "t"))


def test_a_transformers_classifier_and_a_wrapped_timm_model(model, images):
    transformers = pytest.importorskip("transformers")
    config = transformers.ViTConfig(
        hidden_size=32, num_hidden_layers=4, num_attention_heads=2, intermediate_size=64, image_size=64, num_labels=5
    )
    theirs = transformers.ViTForImageClassification(config).eval()
    found = diagnose(theirs, images, r=2, tau=0.3, preprocessing=SMALL)
    assert found.agreement.n == 6
    assert found.depth == 4
    measured = measure_critical_r(theirs, images, "catis", tau=0.3, preprocessing=SMALL)
    assert measured.r_max == 8
    wrapped, plain = (diagnose(m, images, r=2, preprocessing=SMALL) for m in (torch.nn.Sequential(model), model))
    assert wrapped.to_dict() == {**plain.to_dict(), "model": "Sequential"}


def test_measured_r_crit_is_what_a_scan_of_agreement_says(model, images):
    found = measure_critical_r(model, images, "tome", preprocessing=SMALL, drop=0.2)
    pixels = SMALL.normalise(images)
    with torch.inference_mode():
        vanilla = model(pixels).argmax(-1)
        agreement = {}
        for r in range(1, 9):
            with catis.applied(model, "tome", r=r):
                agreement[r] = (model(pixels).argmax(-1) == vanilla).double().mean().item()
    assert found.scores.items() <= {0: 1.0, **agreement}.items()
    assert found.r_max == 8
    if found.r is not None:
        assert agreement[found.r] < 0.8 - 1e-9 <= agreement.get(found.r - 1, 1.0)


def test_labels_measure_accuracy(model, images):
    with torch.inference_mode():
        truth = model(SMALL.normalise(images)).argmax(-1).tolist()
    truth[0] = (truth[0] + 1) % 7
    found = measure_critical_r(model, images, "tome", labels=truth, preprocessing=SMALL)
    assert found.scores[0] == pytest.approx(5 / 6)
    with pytest.raises(ValueError, match="3 labels for 6 images"):
        measure_critical_r(model, images, "tome", labels=[1, 2, 3], preprocessing=SMALL)


def test_interrupting_keeps_what_was_computed(model, images):
    def stop(done, total):
        if done >= 4:
            raise KeyboardInterrupt

    found = diagnose(model, images, r=2, batch_size=2, preprocessing=SMALL, progress=stop)
    assert (found.n, found.complete) == (4, False)
    assert len(rows(found)) == 5


def test_interrupting_before_anything_is_done_is_an_interrupt(model, images):
    class Slow(list):
        def __getitem__(self, index):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        diagnose(model, Slow(images), r=2, preprocessing=SMALL)


def test_no_readable_image_is_an_error(model):
    with pytest.raises(CatisError, match="none of 2 images could be read"):
        diagnose(model, [np.zeros((4, 4)), np.zeros((4, 4))], preprocessing=SMALL)


# The command


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("weights") / "tiny.safetensors"
    save_file(timm.create_model("test_vit").state_dict(), path)
    return path


@pytest.fixture
def folder(tmp_path, images):
    path = tmp_path / "images"
    path.mkdir()
    for i, image in enumerate(images[:3]):
        Image.fromarray(image).save(path / f"{i}.png")
    return path


def call(*arguments):
    return CliRunner().invoke(app, ["diagnose", *map(str, arguments)], env={"COLUMNS": "200"})


def test_command_prints_tables_and_writes_json_and_figure(checkpoint, folder, tmp_path):
    (folder / "bad [x].png").write_text("no image")
    out = tmp_path / "out"
    result = call("test_vit", "--data", folder, "--checkpoint", checkpoint, "-r", 3, "-m", "tome", "-o", out, "--table")
    assert result.exit_code == 0, result.output
    for word in ("pairwise", "delta F", "shallow", "r_crit forecast", "points of agreement"):
        assert word in result.output
    verdict = [line for line in result.output.splitlines() if line.strip()][:3]
    assert ": test_vit, tome r=3, 3 images" in verdict[0]
    assert "points of agreement" in verdict[1]
    assert "not read: bad [x].png" in result.output
    assert "1 images could not be read" in result.output
    written = json.loads(Path(f"{out}.json").read_text())
    assert written["n"] == 3
    assert written["verdict"]["state"] in result.output
    assert written["broken"][0][0] == "bad [x].png"
    assert ElementTree.parse(f"{out}.svg").getroot().tag.endswith("svg")


@pytest.mark.parametrize("n", [1, 3])
def test_a_few_images_are_too_few_to_tell_and_intervals_stay_inside(checkpoint, folder, tmp_path, n):
    out = tmp_path / "out"
    result = call("test_vit", "--data", folder, "--checkpoint", checkpoint, "-r", 1, "-n", n, "-o", out)
    assert result.exit_code == 0, result.output
    assert result.output.split("\n")[1].startswith(f"too few images to tell: test_vit, catis r=1, {n} images")
    found = json.loads(Path(f"{out}.json").read_text())["agreement"]
    assert found["n"] == n
    assert 0 <= found["low"] < found["mean"] <= found["high"] <= 1


def test_command_reports_an_empty_folder(checkpoint, tmp_path):
    result = call("test_vit", "--data", tmp_path, "--checkpoint", checkpoint)
    assert result.exit_code == 2
    assert "no images in" in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no_such_vit"], "neither in timm nor in the zoo"),
        (["test_vit", "--method", "tomme"], "expected one of"),
        (["resnet18", "--checkpoint", "x.ckpt"], "expected a .safetensors"),
        (["test_vit", "--checkpoint", "missing.safetensors"], "missing.safetensors"),
    ],
)
def test_command_says_what_is_wrong(folder, arguments, message):
    result = call(*arguments, "--data", folder)
    assert result.exit_code == 2
    assert message in result.output


def test_ctrl_c_leaves_a_report(checkpoint, tmp_path, images):
    folder = tmp_path / "many"
    folder.mkdir()
    for i in range(400):
        Image.fromarray(images[i % 6]).save(folder / f"{i:03}.png")
    code = (
        "import signal, typer, torch; torch.set_num_threads(1)\n"
        # A shell's background jobs ignore SIGINT, and so would their children.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from catis.cli import diagnose as command\n"
        "from catis.health.probes import ReducedProbe\n"
        "step = ReducedProbe.step\n"
        "def told(self, *a):\n    step(self, *a); print('STEP', flush=True)\n"
        "ReducedProbe.step = told\n"
        "typer.run(command.diagnose_command)\n"
    )
    arguments = ["test_vit", "--data", folder, "--checkpoint", checkpoint, "--batch-size", 2, "-o", tmp_path / "cut"]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)], stdout=subprocess.PIPE, text=True, cwd=tmp_path
    )
    assert process.stdout is not None
    for line in process.stdout:
        if "STEP" in line:
            break
    os.kill(process.pid, signal.SIGINT)
    output = process.stdout.read()
    assert process.wait(60) == 130, output
    assert "interrupted" in output
    written = json.loads((tmp_path / "cut.json").read_text())
    assert written["complete"] is False
    assert 0 < written["n"] < 400
    assert (tmp_path / "cut.svg").exists()
