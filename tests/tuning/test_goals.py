"""`--max-drop` and `--speedup`: what is written is the recipe that was wished for, and nothing where there is none.

Searches are made up, so that only what is asked of them and what becomes of them is looked at.
"""

import json

import pytest
import timm
import torch
from typer.testing import CliRunner

from catis import hosts, zoo
from catis.cli import app
from catis.core.reduction import Reduction
from catis.data.preprocessing import Preprocessing
from catis.errors import CatisError
from catis.recipes import Recipe, load_recipe
from catis.tuning import bounds, goals
from catis.tuning.goals import Goal, tune_for
from catis.tuning.result import Point, Tuning

IMAGES = torch.zeros(400, 3, 96, 96)
"""60 of them judge."""


def made_up(agreement, interrupted=()):
    """A tuning at a budget, as `catis.tune` would give it."""

    def tune(model, images, *, budget, minutes, output, write, **how):
        assert write is False
        assert output is not None
        if budget in interrupted:
            raise KeyboardInterrupt
        kept = agreement(budget)
        point = Point("tuned", budget, budget, "tome", False, 0.1, kept, kept - 0.02, kept + 0.01, 60, ".")
        recipe = Recipe(Reduction.of("tome", r=round(100 * budget)))
        return Tuning("Model", "", {"fit": 260, "choose": 80, "judge": 60}, {budget: recipe}, [point])

    return tune


def wished(goal, folder, model=None, **how):
    return tune_for(
        goal, model or zoo.load("tiny-6"), IMAGES, preprocessing=Preprocessing((96, 96)), minutes=1, limit=None,
        output=folder, **how,
    )  # fmt: skip


def test_the_recipe_that_is_written_is_the_cheapest_that_is_allowed(monkeypatch, tmp_path):
    """The last budget that was tried need not be the one that is allowed."""
    monkeypatch.setattr(goals, "tune", made_up(lambda budget: 0.895 + budget / 10))
    tuning = wished(Goal(drop=0.07), tmp_path / "out")
    assert [point.budget for point in tuning.points] == [0.58, 0.42, 0.5]
    assert load_recipe(tmp_path / "out").reduction == Reduction.of("tome", r=58)
    points = json.loads((tmp_path / "out" / "tune.json").read_text())["points"]
    assert [point["recipe"] for point in points] == [".", "", ""]


@pytest.mark.parametrize(("goal", "left"), [(Goal(drop=0.08), {"gain", "size"}), (Goal(budgets=(0.5,)), {"gain"})])
def test_for_agreement_with_vanilla_the_input_keeps_its_size(goal, left, monkeypatch, tmp_path):
    asked, tune = [], made_up(lambda budget: 0.99)

    def listening(model, images, *, budget, **how):
        asked.append(set(how["without"]))
        return tune(model, images, budget=budget if goal.drop else budget[0], **how)

    monkeypatch.setattr(goals, "tune", listening)
    wished(goal, tmp_path / "out", without=["gain"])
    assert asked
    assert all(without == left for without in asked)


def test_when_nothing_is_allowed_it_is_said_and_nothing_is_written(monkeypatch, tmp_path):
    monkeypatch.setattr(goals, "tune", made_up(lambda budget: 0.5))
    with pytest.raises(CatisError, match=r"no budget up to 0\.9 surely loses at most 8 points: 0\.58 keeps 50\.0 %"):
        wished(Goal(drop=0.08), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_ctrl_c_keeps_what_is_allowed_already(monkeypatch, tmp_path):
    monkeypatch.setattr(goals, "tune", made_up(lambda budget: 0.99, interrupted=[0.42]))
    tuning = wished(Goal(drop=0.08), tmp_path / "out")
    assert not tuning.complete
    assert load_recipe(tmp_path / "out").reduction == Reduction.of("tome", r=58)
    monkeypatch.setattr(goals, "tune", made_up(lambda budget: 0.99, interrupted=[0.58]))
    with pytest.raises(KeyboardInterrupt):
        wished(Goal(drop=0.08), tmp_path / "none")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("drop", [0.0, -0.1, 1.0, float("nan")])
def test_a_loss_that_is_none(drop, tmp_path):
    with pytest.raises(ValueError, match="expected more than 0 and less than 100"):
        wished(Goal(drop=drop), tmp_path)


def test_a_model_without_classes_has_no_agreement(tmp_path):
    model = timm.create_model("vit_tiny_patch16_224", img_size=96, depth=2, embed_dim=48, num_heads=3, num_classes=0)
    with pytest.raises(CatisError, match="has no classifier, so that no agreement can be measured"):
        wished(Goal(drop=0.08), tmp_path / "out", model)
    assert not (tmp_path / "out").exists()


def fake_speed(model, reduction, **how):
    """What removes two thirds of the work is 2.4 times as fast."""
    share = reduction.budget or 0.4
    return 0.8 / share


def test_the_largest_budget_that_is_fast_enough(monkeypatch, tmp_path):
    monkeypatch.setattr(bounds, "measured_speedup", fake_speed)
    monkeypatch.setattr(goals, "measured_speedup", fake_speed)
    monkeypatch.setattr(goals, "tune", made_up(lambda budget: 0.9))
    tuning = wished(Goal(speedup=1.6), tmp_path / "out")
    assert 0.47 < tuning.points[0].budget <= 0.5
    assert tuning.said == ["2.00 times as fast as vanilla, measured here at batch 8; asked: 1.6"]
    assert json.loads((tmp_path / "out" / "tune.json").read_text())["said"] == tuning.said
    with pytest.raises(CatisError, match="9 times as fast cannot be reached here"):
        wished(Goal(speedup=9), tmp_path / "none")
    with pytest.raises(ValueError, match="expected more than 1"):
        wished(Goal(speedup=1), tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_speed_is_really_measured_and_the_model_is_as_it_was():
    model = zoo.load("tiny-6").train()
    assert bounds.measured_speedup(model, Reduction.of("tome", budget=0.4), batch=2, rounds=3) > 0
    assert model.training
    assert hosts.find(model).reduction is None
    assert bounds.reachable(hosts.find(model), (0.01, 0.5)) == [0.5]


@pytest.mark.parametrize(
    ("wishes", "said"),
    [
        ([], "none of them was given"),
        (["--budget", "0.5", "--max-drop", "1"], "--budget and --max-drop was given"),
        (["--max-drop", "0"], "expected more than 0 and less than 100"),
        (["--speedup", "0.5"], "speedup=0.5: expected more than 1"),
        (["--max-drop", "1"], "cannot be shown with the 4 images that judge: it takes 381"),
    ],
)
def test_the_command_says_what_it_cannot_do(wishes, said, folder_of_photos, tmp_path):
    call = ["tune", "tiny-6", "--data", str(folder_of_photos), "-o", str(tmp_path / "out"), *wishes]
    result = CliRunner().invoke(app, call)
    assert result.exit_code == 2, result.output
    assert said in " ".join(result.output.split())
    assert not (tmp_path / "out").exists()
