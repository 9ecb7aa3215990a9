"""`catis.tune`: within the budget, better than its start, the same twice, resumed, and clear where it cannot."""

import json

import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import catis
from catis import hosts, zoo
from catis.cli import app
from catis.errors import CatisError
from catis.tuning.allowance import Allowance, OutOfTimeError
from catis.tuning.bounds import cheapest_within, images_needed
from catis.tuning.candidates import Candidate, Space
from catis.tuning.controls import controls_at
from catis.tuning.objective import Split
from catis.tuning.result import Point, Tuning
from catis.zoo.dataset import dataset

MINUTES = 10
KEYS = ("reduction", "value")


pytestmark = pytest.mark.usefixtures("little_work")


@pytest.fixture(scope="module")
def tuned(images, tmp_path_factory, little_work):
    folder = tmp_path_factory.mktemp("tuned")
    return catis.tune(zoo.load("tiny-6"), images, budget=0.45, minutes=MINUTES, output=folder), folder


def test_it_is_within_the_budget_and_better_than_its_start(tuned):
    tuning, _ = tuned
    point = tuning.points[0]
    assert point.kind == "tuned"
    assert 0.42 < point.macs_share <= 0.45
    made = tuning.recipe.made
    assert made.objective_after < made.objective_before
    assert made.n_held_out == tuning.n["judge"] == 7


def test_a_notebook_shows_what_one_gains(tuned):
    tuning, _ = tuned
    shown = tuning._repr_html_()
    assert f"{100 * tuning.points[0].agreement:.1f} % of 7 images" in shown
    assert "smaller image" in shown


def test_the_recipe_is_applied_from_its_folder(tuned, images):
    tuning, folder = tuned
    model = catis.apply(zoo.load("tiny-6"), recipe=folder)
    share = catis.gmacs(model) / catis.gmacs(zoo.load("tiny-6"))
    assert share == pytest.approx(tuning.points[0].macs_share)
    assert (hosts.find(model).correction is not None) == tuning.points[0].calibrated
    assert model(images[:2]).shape == (2, hosts.find(model).num_classes)


def test_the_controls_are_judged_on_the_same_images(tuned):
    tuning, folder = tuned
    kinds = {point.kind for point in tuning.points}
    assert {"vanilla", "smaller image", "constant r", "same share", "random removal", "adaptive"} <= kinds
    assert {point.n for point in tuning.points} == {7}
    assert all(point.macs_share <= point.budget for point in tuning.points)
    assert json.loads((folder / "tune.json").read_text())["points"][0]["kind"] == "tuned"


def test_a_run_that_is_called_again_looks_at_nothing_twice(tuned, images):
    _, folder = tuned
    lines = (folder / "tried.jsonl").read_text().splitlines()
    (folder / "tried.jsonl").write_text("\n".join([*lines, lines[-1][:20]]))  # cut off in the middle of a line
    again = catis.tune(zoo.load("tiny-6"), images, budget=0.45, minutes=MINUTES, output=folder)
    assert len((folder / "tried.jsonl").read_text().splitlines()) == len(lines) + 1
    assert again.recipe.reduction == tuned[0].recipe.reduction
    weights, before = again.recipe.correction, tuned[0].recipe.correction
    assert (weights is None) == (before is None)
    if weights is not None:
        assert all(torch.equal(weights.values[name], value) for name, value in before.values.items())


def test_levers_can_be_switched_off(images):
    without = ["operator", "theta", "weights", "gain", "size", "calibration"]
    tuning = catis.tune(zoo.load("tiny-6"), images, budget=0.6, minutes=1, without=without)
    reduction = tuning.recipe.reduction
    assert reduction.method == hosts.find(catis.apply(zoo.load("tiny-6"), budget=0.6)).reduction.method
    assert (reduction.input_size, reduction.size_gain, tuning.recipe.correction) == (None, None, None)


def test_the_papers_procedure_chooses_theta(images):
    tuning = catis.tune(
        zoo.load("tiny-6"), images, budget=0.5, minutes=2, without=["calibration"], objective="diagnostic"
    )
    chosen = tuning.recipe.reduction.options
    assert {name: chosen[name] for name in tuning.theta["options"]} == tuning.theta["options"]
    assert tuning.theta["rho_s"] >= tuning.theta["default_rho_s"]


def test_several_budgets_have_folders_of_their_own(images, tmp_path):
    catis.tune(zoo.load("tiny-6"), images, budget=[0.5, 0.7], minutes=2, without=["calibration"], output=tmp_path)
    for budget in ("0.5", "0.7"):
        assert catis.info(catis.apply(zoo.load("tiny-6"), recipe=tmp_path / budget))
    with pytest.raises(FileNotFoundError, match="take one of"):
        catis.apply(zoo.load("tiny-6"), recipe=tmp_path)


def test_ctrl_c_keeps_the_best_so_far(images, tmp_path):
    def interrupt(what, best):
        if "shapes" in what:
            raise KeyboardInterrupt

    tuning = catis.tune(zoo.load("tiny-6"), images, budget=0.5, minutes=MINUTES, output=tmp_path, report=interrupt)
    assert not tuning.complete
    assert tuning.points[0].macs_share <= 0.5
    assert catis.apply(zoo.load("tiny-6"), recipe=tmp_path)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"budget": 0.01}, "nobody can reach it"),
        ({"budget": 1.5}, "between 0 and 1"),
        ({"budget": []}, "at least one budget"),
        ({"budget": 0.5, "without": ["magic"]}, "expected any of schedule"),
        ({"budget": 0.5, "limit": 10}, "needs at least 20"),
    ],
)
def test_what_cannot_be_done_is_said_and_nothing_is_written(arguments, said, images, tmp_path):
    model = zoo.load("tiny-6")
    with pytest.raises((ValueError, CatisError), match=said):
        catis.tune(model, images, minutes=1, output=tmp_path / "out", **arguments)
    assert hosts.find(model).reduction is None
    assert not (tmp_path / "out" / "tune.json").exists()
    assert not (tmp_path / "out" / "catis_recipe.json").exists()


def test_the_command_writes_recipe_numbers_and_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    for index, (image, _) in enumerate(dataset("clean", "val", n=24)[index] for index in range(24)):
        Image.fromarray(image).save(tmp_path / "photos" / f"{index}.png")
    call = ["tune", "tiny-6", "--data", "photos", "--budget", "0.5", "--minutes", "2", "-o", "tuned"]
    result = CliRunner().invoke(app, [*call, "--without", "calibration"])
    assert result.exit_code == 0, result.output
    assert "of the multiply-adds the model gives the same class as vanilla on" in " ".join(result.output.split())
    assert sorted(path.name for path in (tmp_path / "tuned").iterdir()) == [
        "catis_recipe.json", "tried.jsonl", "tune.html", "tune.json",
    ]  # fmt: skip
    page, told = ((tmp_path / "tuned" / name).read_text() for name in ("tune.html", "tune.json"))
    assert "Pareto" in page
    assert "Where the tokens go" in page
    assert json.loads(told)["kept"]["0.5"]["vanilla"] == [144] * 6
    assert len(json.loads(told)["rho_s"]["pairwise"]) == 6
    assert catis.info(catis.apply(zoo.load("tiny-6"), recipe="tuned")).gmacs_vanilla > 0


def test_a_model_whose_logits_are_not_finite_is_refused(images):
    model = zoo.load("tiny-6")
    torch.nn.init.constant_(model.head.bias, float("nan"))
    with pytest.raises(CatisError, match="not finite"):
        catis.tune(model, images, budget=0.5, minutes=1)


def test_the_split_depends_on_the_seed_alone(images):
    first, again, other = (Split.of(images, seed) for seed in (0, 0, 1))
    assert torch.equal(first.fit, again.fit)
    assert not torch.equal(first.fit, other.fit)
    whole = torch.cat([first.fit, first.choose, first.judge])
    assert torch.equal(whole.sum((1, 2, 3)).sort().values, images.sum((1, 2, 3)).sort().values)


def test_every_candidate_and_control_costs_the_budget():
    handle = hosts.find(zoo.load("tiny-6"))
    vanilla = catis.gmacs(handle.model)
    space = Space(handle, 0.5)
    candidates = [Candidate(), Candidate(shape=(0.1, 1, 2, 1, 0.5)), Candidate("mctf", size=88, gain=(0.8, 0.8)),
                  Candidate(kept=(130, 100, 80, 60, 50, 50), others=((0, "mctf"), (1, "tome")))]  # fmt: skip
    reductions = [*map(space.reduction, candidates), *controls_at(handle, 0.5).values()]
    for reduction in reductions[:4]:
        with handle.installed(reduction):
            assert 0.485 < catis.gmacs(handle.model) / vanilla <= 0.5
    for reduction in reductions[4:]:
        with handle.installed(reduction):
            assert catis.gmacs(handle.model) / vanilla <= 0.5


def test_the_work_is_counted_before_it_is_done():
    allowance = Allowance(minutes=1)
    allowance.reserve(allowance.total / 2)
    allowance.spend(allowance.total / 2)
    with pytest.raises(OutOfTimeError):
        allowance.spend(1.0)
    assert not allowance.stopped_by_clock


def fake(budget, kept, n=100):
    point = Point("tuned", budget, budget, "catis", True, 0.1, kept, kept - 0.02, kept + 0.01, n)
    return Tuning("Model", "", {"judge": n}, points=[point])


def test_the_cheapest_that_surely_loses_little():
    tuning = cheapest_within(0.05, 100, lambda budget, of: fake(budget, 0.9 + budget / 8))
    assert tuning.points[0].budget == 0.58
    with pytest.raises(CatisError, match=r"no budget up to 0\.9 surely loses at most 5 points"):
        cheapest_within(0.05, 100, lambda budget, of: fake(budget, 0.9))
    with pytest.raises(CatisError, match=f"it takes {images_needed(0.01)}"):
        cheapest_within(0.01, 100, fake)


def test_a_cluster_finds_the_same_recipe(images):
    """Candidates are compared by the workers of a real cluster on this machine."""
    pytest.importorskip("ray")
    without = ["calibration", "size", "operator", "theta"]
    here, there = (
        catis.tune(zoo.load("tiny-6"), images[:24], budget=0.5, minutes=3, without=without, ray=address)
        for address in (None, "local")
    )
    assert there.recipes[0.5].reduction == here.recipes[0.5].reduction
    asked, answered = ([[entry[key] for entry in tuning.tried] for tuning in (here, there)] for key in KEYS)
    assert len(asked[0]) > 10
    assert asked[0] == asked[1]
    assert answered[1] == pytest.approx(answered[0], rel=1e-4)
