"""The rows of a tuning's table: controls with and without calibration, the paper's Theta, the paper's schedule."""

import json
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

import catis
from catis import hosts, zoo
from catis.cli import app
from catis.data.preprocessing import Preprocessing
from catis.errors import CatisError
from catis.recipes import Made
from catis.report.tune import tune_page
from catis.tuning import judging
from catis.tuning.at_budget import Tuned
from catis.tuning.best import Finding
from catis.tuning.candidates import Candidate, Space
from catis.tuning.objective import Objective
from catis.tuning.result import Tuning

CONTROLS = ["smaller image", "constant r", "same share", "random removal", "adaptive"]


@pytest.fixture(scope="module")
def compared(images, little_work):
    """Everything that can be asked for; the search itself is as short as can be."""
    without = ["schedule", "operator", "theta", "weights", "gain", "size"]
    controls = ["calibrated", "diagnostic"]
    return catis.tune(zoo.load("tiny-6"), images, budget=0.45, minutes=6, without=without, controls=controls)


def test_every_control_has_a_row_with_and_one_without_calibration(compared):
    rows = {point.kind: point for point in compared.points}
    for kind in [*CONTROLS, "paper's Theta"]:
        plain, fitted = rows[kind], rows[f"{kind}, calibrated"]
        assert (plain.budget, plain.macs_share, plain.method) == (fitted.budget, fitted.macs_share, fitted.method)
        assert not plain.calibrated
        assert fitted.kl != plain.kl or not fitted.calibrated
    assert any(rows[f"{kind}, calibrated"].calibrated for kind in CONTROLS)
    assert rows["tuned"].calibrated == ("tuned, not calibrated" in rows)
    assert {point.n for point in compared.points} == {7}


def test_the_papers_theta_stands_beside_ours(compared):
    assert compared.theta["rho_s"] >= compared.theta["default_rho_s"]
    assert {point.method for point in compared.points if point.kind.startswith("paper's Theta")} == {"catis"}


def test_the_page_has_the_curve_with_all_rows_and_one_answer(compared):
    page = tune_page(json.loads(json.dumps(compared.to_json())))
    assert "Pareto curve" in page
    assert "<svg" in page
    for kind in [*CONTROLS, *(f"{kind}, calibrated" for kind in CONTROLS)]:
        assert page.count(kind) >= 2  # in the table and beside the curve
    assert page.count("of the multiply-adds the model gives") == 1
    assert "Where the tokens go" in page
    assert "rho_s" in page


@pytest.mark.parametrize("size", [None, 80])
def test_vanilla_fed_what_the_recipe_feeds_has_a_row(size, images):
    """Agreement is with vanilla at its own size; at another one vanilla does not wholly agree with itself."""
    handle = hosts.find(zoo.load("tiny-6"))
    judge = Objective(handle.model, images[:32], Preprocessing((96, 96)), damaged=False)
    candidate = Candidate(size=size)
    found = Finding(candidate, Space(handle, 0.5).reduction(candidate), 0.1)
    tuning, tuned = Tuning("Model", "", {"judge": 32}), Tuned(found, None, 0.2, 0.1, 0.5, 1.0, False, False)
    judging.add_tuned(tuning, handle, 0.5, tuned, SimpleNamespace(judge=judge), Made("a test"), alone=True)
    rows = {point.kind: point for point in tuning.points}
    assert list(rows) == (["tuned"] if size is None else ["tuned", "vanilla, 80 pixels"])
    if size is not None:
        fed = rows["vanilla, 80 pixels"]
        assert fed.kl > 0
        assert 0.5 < fed.macs_share < 0.9
        assert rows["tuned"].macs_share <= 0.5


def test_without_calibration_it_is_said_that_the_controls_have_none(images, quick):
    tuning = catis.tune(zoo.load("tiny-6"), images[:24], budget=0.5, controls=["calibrated"], **quick)
    assert "budget 0.5: nothing was calibrated, so that the controls were not either" in tuning.said
    assert not any(point.calibrated for point in tuning.points)


def test_the_adaptive_schedule_is_the_rule_and_nothing_is_searched(images, quick, tmp_path):
    tuning = catis.tune(zoo.load("tiny-6"), images[:24], budget=0.5, schedule="adaptive", output=tmp_path, **quick)
    rho_s = [block.mean for block in tuning.rho_s["pairwise"]]
    space = Space(hosts.find(zoo.load("tiny-6")), 0.5)
    expected = space.reduction(Candidate("tome", shape=tuple(value / sum(rho_s) for value in rho_s)))
    assert tuning.recipe.reduction == expected
    tuned, control = (next(p for p in tuning.points if p.kind == kind) for kind in ("tuned", "adaptive"))
    assert tuned.kl == control.kl
    assert 0.48 < tuned.macs_share <= 0.5
    assert len(tuning.tried) == 1  # itself
    assert hosts.find(catis.apply(zoo.load("tiny-6"), recipe=tmp_path)).reduction == expected
    both = catis.tune(zoo.load("tiny-6"), images[:24], budget=0.5, schedule="adaptive", objective="diagnostic", **quick)
    assert both.recipe.reduction.method.name == "catis"
    assert both.recipe.reduction.schedule == expected.schedule


def test_the_command_takes_the_adaptive_schedule(folder_of_photos, tmp_path, little_work):
    call = ["tune", "tiny-6", "--data", str(folder_of_photos), "--budget", "0.5", "--minutes", "1.5"]
    call += ["--schedule", "adaptive", "--without", "calibration", "-o", str(tmp_path / "out")]
    result = CliRunner().invoke(app, call)
    assert result.exit_code == 0, result.output
    assert len(json.loads((tmp_path / "out" / "tune.json").read_text())["tried"]) == 1
    shown = CliRunner().invoke(app, ["recipes", str(tmp_path / "out")])
    assert json.loads(shown.output)["method"] == "tome"


def test_where_the_rule_says_nothing_the_rest_is_kept(images, quick, monkeypatch):
    def nothing(*arguments):
        raise CatisError("no ranking survives")

    monkeypatch.setattr(judging, "adaptive_shape", nothing)
    tuning = catis.tune(zoo.load("tiny-6"), images[:24], budget=0.5, **quick)
    assert "adaptive schedule: no ranking survives" in tuning.said
    assert {"same share", "tuned"} <= {point.kind for point in tuning.points}
    with pytest.raises(CatisError, match="no ranking survives"):
        catis.tune(zoo.load("tiny-6"), images[:24], budget=0.5, schedule="adaptive", **quick)
