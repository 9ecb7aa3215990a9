"""`--recipe` in every command that reduces a model: the calibrated weights run, and what was applied is recorded."""

from __future__ import annotations

import json
from pathlib import Path

import onnxruntime
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import catis
from catis import hosts, zoo
from catis.cli import app
from catis.core.reduction import Reduction
from catis.recipes import Made, Recipe, files, load_recipe, write_recipe
from catis.runs import Store


def run(*words: str) -> str:
    result = CliRunner().invoke(app, list(words), env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A recipe that makes tiny-6 say the same class for every image, so that its weights show wherever they run."""
    model = catis.apply(zoo.load("tiny-6"), "tome", r=4)
    bias = torch.zeros_like(model.head.bias).detach()
    bias[7] = 1e4
    handle = hosts.find(model)
    correction = handle.correction_of({"head.bias": bias})
    path = tmp_path_factory.mktemp("recipes") / "always-7"
    catis.save_recipe(catis.apply(model, handle.reduction, correction=correction), path)
    return path


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CATIS_CACHE", str(tmp_path / "cache"))


def test_eval_runs_and_records_the_calibrated_weights(folder):
    said = run("eval", "tiny-6", "--data", "zoo-clean", "-n", "48", "--recipe", str(folder), "--store", "runs")
    assert "tome calibrated 4" in said
    records = {record.method: record for record in Store("runs").records()}
    assert records["tome"].calibrated == load_recipe(folder).correction.digest
    assert records["vanilla"].calibrated == ""
    assert set(Store("runs").predictions(records["tome"].name).top[:, 0].tolist()) == {7}
    assert len(set(Store("runs").predictions(records["vanilla"].name).top[:, 0].tolist())) > 3
    run("eval", "tiny-6", "--data", "zoo-clean", "-n", "48", "-m", "tome", "-r", "4", "--store", "runs")
    assert len(list(Store("runs").records())) == 3  # the same reduction without the weights is another run


def test_sweep_takes_recipes_beside_methods(folder, tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text(
        f'r = 4\nmethods = ["tome", {{ recipe = "{folder}", name = "mine" }}]\n'
        'data = [{ name = "zoo-clean", limit = 24 }]\nmodels.small.name = "tiny-6"\n'
    )
    run("sweep", str(plan), "--store", "runs")
    assert sorted(record.calibrated != "" for record in Store("runs").records()) == [False, False, True]
    plan.write_text(plan.read_text().replace("always-7", "never"))
    result = CliRunner().invoke(app, ["sweep", str(plan)])
    assert result.exit_code == 2
    assert "methods[1].recipe: recipe" in result.output


def test_export_holds_the_calibrated_weights(folder):
    run("export", "tiny-6", "--recipe", str(folder), "--program", "model.pt2", "--onnx", "model.onnx")
    program = torch.export.load("model.pt2").module()
    assert program(torch.rand(2, 3, 96, 96)).argmax(-1).tolist() == [7, 7]
    session = onnxruntime.InferenceSession("model.onnx")
    logits = session.run(None, {session.get_inputs()[0].name: torch.rand(2, 3, 96, 96).numpy()})[0]
    assert logits.argmax(-1).tolist() == [7, 7]
    assert load_recipe("model.recipe.json").correction is not None


def test_show_bench_and_diagnose_take_it(folder):
    shown, photos = zoo.dataset("clean", n=6), Path("photos")
    photos.mkdir()
    for place in range(6):
        Image.fromarray(shown[place][0]).save(photos / f"{place}.png")
    first = str(photos / "0.png")
    assert shown.classes[7] in run("show", first, "--model", "tiny-6", "--recipe", str(folder))
    said = run(
        "bench", "tiny-6", "--recipe", str(folder), "--batch-size", "1", "--num-bench-iter", "2", "-o", "rows.json"
    )
    assert "tome" in said
    run("diagnose", "tiny-6", "--data", "photos", "--recipe", str(folder), "-o", "found")
    assert json.loads(Path("found.json").read_text())["agreement"]["mean"] < 1
    result = CliRunner().invoke(app, ["show", first, "--model", "tiny-6", "--recipe", str(folder), "-r", "3"])
    assert "recipe= was given together with r" in result.output


def test_recipes_lists_and_prints(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "NAMED", tmp_path / "named")
    assert "brings no recipes" in run("recipes")
    made = Made("catis tune", budget=0.5, held_out_kl=0.2, held_out_agreement=90.0, n_held_out=100)
    write_recipe(Recipe(Reduction.of("tome", r=4), name="tiny-6", made=made), tmp_path / "named" / "tiny-6@0.5.json")
    said = run("recipes")
    for word in ("tiny-6@0.5", "tome", "0.50", "agreement 90.0 % (n=100)"):
        assert word in said
    assert json.loads(run("recipes", "tiny-6@0.5"))["r"] == 4
    assert json.loads(run("recipes", str(folder)))["calibrated"] == ["head.bias"]
    assert "tome" in run("eval", "tiny-6", "--data", "zoo-clean", "-n", "24", "--recipe", "tiny-6@0.5")
