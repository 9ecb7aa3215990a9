"""Recipes as files: folders with calibrated weights, names, old files, and all that is refused with a sentence."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import timm
import torch

import catis
from catis import hosts
from catis.core.reduction import Reduction
from catis.models import build_model
from catis.recipes import FILE_NAME, Made, Recipe, files, list_recipes, load_recipe, write_recipe
from catis.recipes.weights_file import WEIGHTS_NAME

MADE = Made(
    "catis tune test_vit", budget=0.5, images="abc", n_images=96, seed=0, objective_before=0.5, objective_after=0.25,
    held_out_kl=0.3, held_out_agreement=91.25, n_held_out=32, minutes=1.5,
)  # fmt: skip
NAME = "test_vit@0.5"


def build():
    torch.manual_seed(0)
    return timm.create_model("test_vit", num_classes=5).eval()


def calibrated():
    """A reduced model with a changed layer, as a fit would leave it."""
    model = catis.apply(build(), "tome", r=[9, 8, 0, 3, 0, 1])
    handle = hosts.find(model)
    correction = handle.correction_of({"head.weight": model.head.weight.detach() * 2})
    return catis.apply(model, handle.reduction, correction=correction)


def run(model):
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        return model(torch.randn(hosts.find(model).example_shape(2), generator=generator))


@pytest.fixture
def folder(tmp_path):
    """A recipe with calibrated weights."""
    catis.save_recipe(calibrated(), tmp_path / "0.5", made=MADE)
    return tmp_path / "0.5"


def edit(folder: Path, **changes) -> None:
    file = folder / FILE_NAME
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def test_a_folder_gives_the_same_model_again(folder):
    expected, content = run(calibrated()), json.loads((folder / FILE_NAME).read_text())
    assert sorted(file.name for file in folder.iterdir()) == [FILE_NAME, WEIGHTS_NAME]
    assert content["version"] == 4
    assert content["model"] == {"class": "VisionTransformer", "name": "test_vit.r160_in1k"}
    assert content["made"]["held_out_agreement"] == 91.25
    for source in (folder, str(folder), folder / FILE_NAME, load_recipe(folder)):
        model = build()
        assert torch.equal(run(catis.apply(model, recipe=source)), expected)
        assert torch.equal(run(catis.remove(model)), run(build()))
    recipe = load_recipe(folder)
    assert recipe.made == MADE
    written = write_recipe(recipe, folder.parent / "again")
    assert json.loads(written.read_text()) == content
    catis.save_recipe(catis.apply(build(), "tome", r=2), folder)  # without calibrated weights, none stay behind
    assert [file.name for file in folder.iterdir()] == [FILE_NAME]


def test_a_folder_of_several_recipes_lists_them(folder):
    shutil.copytree(folder, folder.parent / "0.36")
    empty = folder.parent / "none"
    empty.mkdir()
    with pytest.raises(FileNotFoundError, match=r"folders with one each; take one of .*/0\.36, .*/0\.5"):
        catis.apply(build(), recipe=folder.parent)
    with pytest.raises(FileNotFoundError, match=f"there is no {FILE_NAME} in it"):
        load_recipe(empty)


def test_files_of_the_first_version_are_read(tmp_path):
    old = {"method": "tome", "r": 3, "options": {}, "prop_attn": True, "model": "ViTModel", "notes": {"a": 1}}
    file = tmp_path / "old.json"
    file.write_text(json.dumps(old))
    recipe = load_recipe(file)
    assert (recipe.model, recipe.name, recipe.made, recipe.correction) == ("ViTModel", "", None, None)
    assert recipe.notes == {"a": 1}
    assert Recipe.from_json(recipe.to_json()) == recipe


def test_files_of_the_second_version_restore_no_norms(folder):
    """Nobody knew of norms then: what such a recipe was measured with is what it still does, calibrated or not."""
    catis.save_recipe(catis.apply(build(), "cluster", r=2), folder.parent / "plain")
    edit(folder.parent / "plain", version=2)
    recipe = load_recipe(folder.parent / "plain")
    assert recipe.reduction.restore_norm is False
    then = {"restore_norm": False, "size_gain": 0.7, "soften": 0.0}
    assert torch.equal(run(catis.apply(build(), recipe=recipe)), run(catis.apply(build(), "cluster", r=2, **then)))
    assert load_recipe(write_recipe(recipe, folder.parent / "again")) == recipe
    edit(folder, version=2)
    assert torch.equal(run(catis.apply(build(), recipe=folder)), run(calibrated()))  # tome, which never did


def test_files_of_the_third_version_soften_nothing_and_have_one_gain(folder):
    cluster = {"method": "cluster", "options": {}}
    mixed = [cluster, *[{"method": "tome", "options": {}}] * 5]
    for method, gain in (("cluster", 0.7), (mixed, (0.7, *[1.0] * 5))):
        recipe = Recipe.from_json({"version": 3, "method": method, "r": 2})
        assert (recipe.reduction.soften, recipe.reduction.size_gain) == (0.0, gain)
        assert recipe.reduction.restore_norm is None
        assert Recipe.from_json(recipe.to_json()) == recipe
    said = Recipe.from_json({"version": 3, "method": "cluster", "r": 2, "size_gain": 0.9})
    assert (said.reduction.soften, said.reduction.size_gain) == (0.0, 0.9)
    assert Recipe.from_json({"version": 4, "method": "cluster", "r": 2}).reduction == Reduction.of("cluster", 2)
    edit(folder, version=3)
    assert torch.equal(run(catis.apply(build(), recipe=folder)), run(calibrated()))  # tome, which has neither


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"version": 5}, " has version 5: this catis reads 1 to 4"),
        ({"version": "2"}, " has version '2'"),
        ({"colour": "red"}, " has the unknown keys colour"),
        ({"method": "topk"}, ": .*topk"),
        ({"options": 3}, ": options is 3, expected a mapping"),
        ({"options": {"method": 1}}, ": .*method"),
        ({"prop_attn": "no"}, ": prop_attn is 'no', expected true or false"),
        ({"head_only": "yes"}, ": head_only='yes': expected True or False"),
        ({"restore_norm": 1}, ": restore_norm=1: expected True or False"),
        ({"size_gain": "big"}, ": size_gain='big': expected a number"),
        ({"soften": 2}, ": soften=2: expected a number >= 0 and below 1"),
        ({"input_size": 1.5}, ": input_size=1.5: expected the side"),
        ({"output": "pixels"}, ": output='pixels': expected one of"),
        ({"made": {"who": "me"}}, ", made has the unknown keys who"),
        ({"made": {"minutes": "long"}}, ", made: minutes is 'long', expected float"),
        ({"made": []}, ", made: expected a mapping"),
        ({"model": {"class": 3}}, ": model is"),
        ({"labels": "cat"}, ": labels is 'cat'"),
        ({"notes": 3}, ": notes is 3"),
        ({"weights": {"file": "x"}}, ": weights is .* expected the keys file"),
        ({"weights": {"file": "../x", "belongs_to": {}, "sha256": ""}}, ": weights.file is '../x'"),
        ({"weights": {"file": "/etc/passwd", "belongs_to": {}, "sha256": ""}}, ": weights.file is '/etc/passwd'"),
        ({"weights": {"file": "none", "belongs_to": {}, "sha256": ""}}, ": its calibrated weights, none, are not"),
        ({"weights": {"file": FILE_NAME, "belongs_to": {}, "sha256": ""}}, ": .* is damaged or of another recipe"),
        ({"r": [9, 8, 0, 3, 0, 2]}, " was changed since its weights were calibrated: r was"),
        ({"prop_attn": False}, " was changed since its weights were calibrated: prop_attn was True, is False"),
    ],
)
def test_what_is_refused_begins_with_the_file(folder, changes, problem):
    edit(folder, **changes)
    model = build()
    with pytest.raises(ValueError, match=rf"^{folder / FILE_NAME}{problem}"):
        catis.apply(model, recipe=folder)
    assert hosts.find(model).reduction is None


def test_a_wrong_length_and_foreign_weights(folder, tmp_path):
    file = tmp_path / "short.json"
    file.write_text('{"method": "tome", "r": [1, 2]}')
    with pytest.raises(ValueError, match=rf"^{file}: .*2"):
        catis.apply(build(), recipe=file)
    other = build()
    with torch.no_grad():
        other.cls_token.add_(1)
    with pytest.raises(ValueError, match=rf"^{folder / FILE_NAME}: .* hash [0-9a-f]+, this model's have [0-9a-f]+"):
        catis.apply(other, recipe=folder)


def test_damaged_weights(folder):
    weights = folder / WEIGHTS_NAME
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    with pytest.raises(ValueError, match="is damaged or of another recipe: sha256"):
        load_recipe(folder)


def test_weights_need_a_file(folder):
    with pytest.raises(ValueError, match="read from a file beside the recipe only"):
        load_recipe(json.loads((folder / FILE_NAME).read_text()))


def test_where_recipes_are_written(tmp_path):
    model = calibrated()
    assert catis.save_recipe(model, tmp_path / "a.json").name == "a.json"
    assert (tmp_path / f"a.{WEIGHTS_NAME}").exists()
    assert load_recipe(tmp_path / "a.json").correction is not None
    for wrong in ("a.toml", "file"):
        (tmp_path / "file").touch()
        with pytest.raises(ValueError, match=r"a name that ends in \.json"):
            catis.save_recipe(model, tmp_path / wrong)
    assert not list(tmp_path.glob(".*"))


def test_named_recipes(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "NAMED", tmp_path)
    write_recipe(Recipe(Reduction.of("tome", r=4), name="test_vit", made=MADE), tmp_path / f"{NAME}.json")
    assert list_recipes() == [NAME]
    model = catis.apply(build(), recipe=NAME)
    assert str(hosts.find(model).reduction) == "tome r=4"
    with pytest.raises(FileNotFoundError, match=f"recipe test_vit@0.6: .* close to it: {NAME}"):
        catis.apply(model, recipe="test_vit@0.6")


def test_every_recipe_that_comes_with_catis_fits_its_model():
    for name in list_recipes():
        recipe = load_recipe(name)
        assert recipe.correction is None
        assert recipe.made is not None
        assert recipe.made.measured
        catis.apply(build_model(name.partition("@")[0], device="meta"), recipe=name)
