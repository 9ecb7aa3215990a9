"""`catis.calibrate` on models of transformers: closer to vanilla on images held out, undone bit for bit."""

import copy
import io
import pickle

import pytest
import torch

import catis
from catis import hosts
from catis.calibration.answers import answer_of, distances
from catis.calibration.run import calibrated_weights
from catis.calibration.views import views
from catis.recipes import load_recipe
from tests.hosts.hf_models import build, inputs_for

FAMILIES = [
    "ViTForImageClassification",
    "DeiTForImageClassification",
    "DeiTForImageClassificationWithTeacher",
    "Dinov2Model",
    "Dinov2ForImageClassification",
    "Dinov2WithRegistersModel",
    "CLIPVisionModel",
    "SiglipVisionModel",
]


@pytest.fixture(scope="module")
def pictures():
    shape = inputs_for(build(FAMILIES[0]))["pixel_values"].shape
    return torch.randn(160, *shape[1:], generator=torch.Generator().manual_seed(1)).cumsum(-1).div(4)


def same(first, second):
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("name", FAMILIES)
def test_families_of_transformers_come_closer(name, pictures):
    model = build(name)
    reduction = hosts.find(catis.apply(copy.deepcopy(model), "tome", r=4)).reduction
    outcome = calibrated_weights(model, reduction, views(pictures, hosts.find(model).preprocessing(), 32))
    assert outcome.weights
    assert outcome.after < 1


@pytest.mark.parametrize("name", FAMILIES)
def test_remove_gives_the_weights_of_transformers_back(name, pictures):
    model = build(name)
    before = copy.deepcopy(model.state_dict())
    catis.calibrate(catis.apply(model, "tome", r=4), pictures)
    catis.remove(model)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def answers(model, images):
    with torch.no_grad():
        return answer_of(hosts.find(model), model(images))


def apart(model, vanilla, images):
    """Mean KL of the logits, or 1 - cosine of the features."""
    (expected, are_logits), (found, _) = answers(vanilla, images), answers(model, images)
    return float(distances(expected, found, are_logits).mean())


@pytest.fixture(scope="module", params=FAMILIES)
def fitted(request, pictures):
    """A family's vanilla model, the same reduced and calibrated, and its distance from vanilla before that."""
    vanilla = build(request.param)
    model = catis.apply(copy.deepcopy(vanilla), "tome", r=[6, 5, 2, 0])
    before = apart(model, vanilla, pictures[96:])
    catis.calibrate(model, pictures[:96])
    assert hosts.find(model).correction is not None
    return vanilla, model, before


def test_images_that_it_never_saw(fitted, pictures):
    vanilla, model, before = fitted
    if type(vanilla).__name__ == "Dinov2ForImageClassification":
        pytest.skip("its random weights read an average of tokens: so few pictures do not show it")
    assert apart(model, vanilla, pictures[96:]) < before


def test_copies_and_pickles_have_both_weights(fitted, pictures):
    vanilla, model, _ = fitted
    expected, buffer = answers(model, pictures[:2])[0], io.BytesIO()
    torch.save(model, buffer)
    buffer.seek(0)
    twins = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]  # noqa: S301
    for twin in (*twins, torch.load(buffer, weights_only=False)):
        assert torch.equal(answers(twin, pictures[:2])[0], expected)
        catis.remove(twin)
        assert same(twin.state_dict(), vanilla.state_dict())
        assert torch.equal(answers(twin, pictures[:2])[0], answers(vanilla, pictures[:2])[0])
    assert torch.equal(answers(model, pictures[:2])[0], expected)


def test_state_dict_is_what_runs_and_none_can_be_loaded(fitted):
    vanilla, model, _ = fitted
    values = hosts.find(model).correction.values
    assert all(torch.equal(model.state_dict()[name], value) for name, value in values.items())
    with pytest.raises(ValueError, match=r"call catis.remove"):
        model.load_state_dict(vanilla.state_dict())
    assert same(hosts.find(model).vanilla_weights, vanilla.state_dict())


def test_save_pretrained_saves_what_runs(fitted, pictures, tmp_path):
    vanilla, model, _ = fitted
    expected = answers(model, pictures[:2])[0]
    model.save_pretrained(tmp_path / "calibrated")
    catis.save_recipe(model, tmp_path / "calibrated")
    loaded = type(vanilla).from_pretrained(tmp_path / "calibrated").eval()
    with pytest.raises(ValueError, match=r"catis_recipe.json: .*holds the calibrated weights already"):
        catis.apply(loaded, recipe=tmp_path / "calibrated")
    catis.apply(loaded, load_recipe(tmp_path / "calibrated").reduction)
    assert torch.equal(answers(loaded, pictures[:2])[0], expected)


def test_the_vanilla_model_is_saved_with_its_recipe_beside_it(fitted, pictures, tmp_path):
    """The way that docs/recipes.md names: remove, save, apply, save_recipe."""
    vanilla, model, _ = fitted
    own = copy.deepcopy(model)
    reduction, correction = hosts.find(own).reduction, hosts.find(own).correction
    catis.remove(own).save_pretrained(tmp_path)
    catis.save_recipe(catis.apply(own, reduction, correction=correction), tmp_path)
    loaded = catis.apply(type(vanilla).from_pretrained(tmp_path).eval(), recipe=tmp_path)
    assert torch.equal(answers(loaded, pictures[:2])[0], answers(model, pictures[:2])[0])
    other = build(type(vanilla).__name__)
    with torch.no_grad():
        next(other.parameters()).add_(1)
    with pytest.raises(ValueError, match=r"hash [0-9a-f]{32}, this model's have [0-9a-f]{32}"):
        catis.apply(other, recipe=tmp_path)


def test_compiled_and_exported_models_have_the_new_weights(pictures):
    model = build("ViTForImageClassification")
    catis.calibrate(catis.apply(model, "tome", r=[6, 5, 2, 0]), pictures[:96])
    with torch.no_grad():
        expected = model(pictures[:2]).logits
        compiled = torch.compile(model, fullgraph=True, backend="eager")
        torch.testing.assert_close(compiled(pictures[:2]).logits, expected)
        program = torch.export.export(model, (pictures[:2],))
        catis.remove(model)
        torch.testing.assert_close(program.module()(pictures[:2]).logits, expected)
        torch.testing.assert_close(compiled(pictures[:2]).logits, model(pictures[:2]).logits)


@pytest.mark.parametrize("name", ["CLIPModel", "SiglipModel"])
def test_models_of_images_and_texts_name_the_part_that_sees(name, pictures):
    model = build(name)
    with pytest.raises(ValueError, match=rf"{name} reads more than images.* model\.vision_model"):
        catis.calibrate(catis.apply(model, "tome", r=4), pictures)
    catis.remove(model)
    before, inputs = copy.deepcopy(model.state_dict()), inputs_for(model)
    with torch.no_grad():
        vanilla = model(**inputs).logits_per_image
        catis.calibrate(catis.apply(model.vision_model, "tome", r=4), pictures[:96])
        assert not torch.equal(model(**inputs).logits_per_image, vanilla)
        catis.remove(model.vision_model)
        assert torch.equal(model(**inputs).logits_per_image, vanilla)
    assert same(model.state_dict(), before)


def test_a_layer_that_is_no_plain_linear_one_is_named(pictures):
    model = build("ViTForImageClassification")
    catis.apply(model, "tome", r=4)
    layer = hosts.find(model).linears()[1].mlp[-1]
    layer.weight = torch.nn.Parameter(layer.weight.detach().to(torch.int8), requires_grad=False)
    with pytest.raises(ValueError, match="block 1 has a Linear: only plain linear layers"):
        catis.calibrate(model, pictures[:16])
    assert hosts.find(model).correction is None
