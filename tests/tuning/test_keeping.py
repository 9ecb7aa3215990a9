"""What a tuning keeps: its best on Ctrl-C and at the clock, its answers when it is killed, the model as it was."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import catis
from catis import hosts, zoo
from catis.cli import app
from catis.tuning import judging
from catis.tuning.journal import Journal


class Killed(BaseException):
    """What nobody catches, as a kill."""


def stop_at(word, error=KeyboardInterrupt):
    """A report that ends a tuning when it comes to something."""

    def report(what, best):
        if word in what:
            raise error

    return report


def lines(folder):
    return (folder / "tried.jsonl").read_text().splitlines()


@pytest.mark.slow
def test_a_killed_run_goes_on_and_ends_where_it_would_have_ended(images, tmp_path, quick):
    how = {**quick, "budget": 0.5, "minutes": 4}
    whole = catis.tune(zoo.load("tiny-6"), images[:24], output=tmp_path / "whole", **how)
    with pytest.raises(Killed):
        catis.tune(zoo.load("tiny-6"), images[:24], output=tmp_path / "cut", report=stop_at("gain", Killed), **how)
    known = lines(tmp_path / "cut")
    assert 0 < len(known) < len(lines(tmp_path / "whole"))
    assert [path.name for path in (tmp_path / "cut").iterdir()] == ["tried.jsonl"]
    again = catis.tune(zoo.load("tiny-6"), images[:24], output=tmp_path / "cut", **how)
    assert lines(tmp_path / "cut") == lines(tmp_path / "whole")  # in the same order, none twice
    assert again.recipe.reduction == whole.recipe.reduction
    assert again.points == whole.points


def test_a_line_that_was_cut_off_spoils_none_after_it(tmp_path):
    file = tmp_path / "folder" / "tried.jsonl"
    journal = Journal(file, {"seed": 0})
    assert not file.parent.exists()
    journal.keep({"r": 1}, 0.5)
    file.write_text(file.read_text() + '{"run": "ab')
    Journal(file, {"seed": 0}).keep({"r": 2}, 0.25)
    again = Journal(file, {"seed": 0})
    assert (again.recall({"r": 1}), again.recall({"r": 2})) == (0.5, 0.25)
    assert not Journal(file, {"seed": 1}).knows({"r": 1})


def test_other_batches_are_another_run(images, tmp_path, quick):
    """How many views a look takes depends on the size of the batches."""
    catis.tune(zoo.load("tiny-6"), images[:24], budget=0.5, output=tmp_path, **quick)
    before = len(lines(tmp_path))
    catis.tune(zoo.load("tiny-6"), images[:24], budget=0.5, output=tmp_path, batch_size=7, **quick)
    assert len(lines(tmp_path)) > before


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGKILL")
def test_a_process_that_is_killed_goes_on(folder_of_photos, tmp_path):
    code = "from catis.tuning import allowance; allowance.RATE = 0.25; from catis.cli import app; app()"
    call = [sys.executable, "-c", code, "tune", "tiny-6", "--data", str(folder_of_photos), "--budget", "0.5"]
    call += ["--without", "calibration", "--minutes", "30", "--threads", "1"]
    out = tmp_path / "out"
    process = subprocess.Popen([*call, "-o", str(out)], stdout=subprocess.DEVNULL, start_new_session=True)
    while process.poll() is None and not ((out / "tried.jsonl").exists() and len(lines(out)) > 4):
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert [path.name for path in out.iterdir()] == ["tried.jsonl"]
    for folder in (out, tmp_path / "whole"):
        assert subprocess.run([*call, "-o", str(folder)], check=False, stdout=subprocess.DEVNULL).returncode == 0
    first, second = (json.loads((folder / "catis_recipe.json").read_text()) for folder in (out, tmp_path / "whole"))
    assert {**first, "made": None} == {**second, "made": None}


def test_ctrl_c_at_the_second_budget_keeps_the_first_in_its_folder(images, tmp_path, quick):
    calls = []

    def report(what, best):
        calls.append(what)
        if calls.count("shapes") == 2:
            raise KeyboardInterrupt

    tuning = catis.tune(zoo.load("tiny-6"), images[:24], budget=[0.7, 0.5], output=tmp_path, report=report, **quick)
    assert not tuning.complete
    assert [point.recipe for point in tuning.points if point.recipe] == ["0.7", "0.5"]
    for budget in ("0.7", "0.5"):  # of the second, what was found until then
        assert catis.info(catis.apply(zoo.load("tiny-6"), recipe=tmp_path / budget))
    assert not (tmp_path / "catis_recipe.json").exists()


@pytest.mark.parametrize("where", ["_controls", "_rules"])
def test_ctrl_c_in_the_controls_keeps_the_recipe(where, images, tmp_path, quick, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(judging, where, interrupted)
    tuning = catis.tune(zoo.load("tiny-6"), images[:24], budget=0.6, output=tmp_path, **quick)
    assert not tuning.complete
    assert json.loads((tmp_path / "tune.json").read_text())["complete"] is False
    assert catis.apply(zoo.load("tiny-6"), recipe=tmp_path)


def test_ctrl_c_in_the_calibration_keeps_what_was_searched(images, tmp_path, little_work):
    tuning = catis.tune(
        zoo.load("tiny-6"), images, budget=0.6, minutes=8, output=tmp_path,
        without=["size", "operator", "theta", "weights", "gain", "schedule"], report=stop_at("calibrating, block 2"),
    )  # fmt: skip
    assert not tuning.complete
    assert tuning.recipe.correction is None
    assert catis.apply(zoo.load("tiny-6"), recipe=tmp_path)


def test_ctrl_c_before_anything_is_found_writes_nothing(images, tmp_path, quick, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("catis.tuning.tuning.tune_at", interrupted)
    model = zoo.load("tiny-6")
    with pytest.raises(KeyboardInterrupt):
        catis.tune(model, images[:24], budget=0.6, output=tmp_path / "out", **quick)
    assert hosts.find(model).reduction is None
    assert not (tmp_path / "out").exists()


def test_the_command_after_ctrl_c(folder_of_photos, tmp_path, little_work, monkeypatch):
    monkeypatch.setattr(judging, "_rules", lambda *arguments: (_ for _ in ()).throw(KeyboardInterrupt))
    call = ["tune", "tiny-6", "--data", str(folder_of_photos), "--budget", "0.6", "--minutes", "1.5"]
    result = CliRunner().invoke(app, [*call, "--without", "calibration", "-o", str(tmp_path / "out")])
    assert result.exit_code == 130, result.output
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["catis_recipe.json", "tried.jsonl", "tune.html", "tune.json"]
    assert "It was interrupted; this is the best so far." in (tmp_path / "out" / "tune.html").read_text()


def test_the_clock_ends_a_search_and_it_is_said(images, monkeypatch, tmp_path):
    monkeypatch.setattr("catis.tuning.allowance.RATE", 1e6)  # work for days
    tuning = catis.tune(zoo.load("tiny-6"), images[:24], budget=0.5, minutes=0.01, without=["calibration"])
    assert any("the clock ended the search; a longer --minutes may do better" in line for line in tuning.said)
    assert tuning.points[0].macs_share <= 0.5


def test_what_is_on_the_model_is_ignored_and_kept(images, quick):
    """Reduced, calibrated and in training: all of that comes back, and the recipe is that of the vanilla model."""
    model = catis.apply(zoo.load("tiny-6"), "tome", r=4)
    handle = hosts.find(model)
    correction = handle.correction_of({"head.bias": model.head.bias.detach() + 1})
    catis.apply(model, handle.reduction, correction=correction).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    objects = dict(model.named_parameters())
    tuning = catis.tune(model, images[:24], budget=0.5, **quick)
    assert model.training
    assert hosts.find(model).correction is correction
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(weight is objects[name] or name == "head.bias" for name, weight in model.named_parameters())
    plain = catis.tune(zoo.load("tiny-6"), images[:24], budget=0.5, **quick)
    assert tuning.recipe.reduction == plain.recipe.reduction
    assert tuning.points == plain.points


def test_progress_names_the_best_so_far(images, quick):
    told = []
    catis.tune(
        zoo.load("tiny-6"), images[:24], budget=0.5, report=lambda what, best: told.append((what, best)), **quick
    )
    assert [what for what, _ in told][:2] == ["shapes", "methods"]
    assert all(0 < best < float("inf") for _, best in told)
    assert told[-1][1] <= told[0][1]


def test_the_recipe_says_how_it_came_about(images, tmp_path, quick):
    tuning = catis.tune(
        zoo.load("tiny-6"), images, budget=0.5, seed=3, command="catis tune mine", output=tmp_path, **quick
    )
    made = json.loads((tmp_path / "catis_recipe.json").read_text())["made"]
    assert made["command"] == "catis tune mine"
    assert (made["budget"], made["n_images"], made["seed"], made["n_held_out"]) == (0.5, 48, 3, 7)
    assert len(made["images"]) == 16
    assert 0 < made["objective_after"] < 2 * made["objective_before"]
    assert made["held_out_kl"] == tuning.points[0].kl
    assert made["held_out_agreement"] == pytest.approx(100 * tuning.points[0].agreement)
    assert set(made["versions"]) == {"catis", "torch", "timm"}
    assert {"reduction", "images", "views", "value"} <= set(tuning.tried[0])
    assert Path(tmp_path / "tune.json").exists()
