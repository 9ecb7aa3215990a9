"""What users do with transformers models: copy, move, save, train, serve. All of it works on a reduced one."""

from __future__ import annotations

import copy
import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import accelerate
import pytest
import torch
import transformers as hf
from PIL import Image
from torch import nn

import catis
from catis import hosts
from catis.core.reduction import Reduction
from catis.recipes import FILE_NAME, Recipe, load_recipe
from tests.hosts.hf_models import BUILDERS, build, inputs_for, tensors

NAMES = ("ViTForImageClassification", "DINOv3ViTModel", "SiglipVisionModel", "VideoMAEForVideoClassification")


def first(model: nn.Module, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    with torch.no_grad():
        return model(**inputs)[0]


@pytest.mark.parametrize("name", NAMES)
def test_copies_threads_and_removal(name: str) -> None:
    model = build(name)
    inputs, keys = inputs_for(model), list(model.state_dict())
    plain, kinds = first(model, inputs), [type(module) for module in model.modules()]
    attributes = [set(vars(module)) for module in model.modules()]
    catis.apply(model, "catis", r=3)
    catis.apply(model, "catis", r=3)
    reduced = first(model, inputs)
    assert not torch.equal(plain, reduced)
    assert list(model.state_dict()) == keys
    assert torch.equal(first(copy.deepcopy(model), inputs), reduced)
    assert torch.equal(first(pickle.loads(pickle.dumps(model)), inputs), reduced)  # noqa: S301
    with ThreadPoolExecutor(3) as pool:
        assert all(torch.equal(found, reduced) for found in pool.map(lambda _: first(model, inputs), range(9)))
    catis.remove(model)
    assert [type(module) for module in model.modules()] == kinds
    assert [set(vars(module)) for module in model.modules()] == attributes
    assert torch.equal(first(model, inputs), plain)


def test_a_copy_has_its_own_reduction() -> None:
    model = catis.apply(build("ViTModel"), "tome", r=3)
    other = copy.deepcopy(model)
    catis.remove(other)
    inputs = inputs_for(model)
    assert not torch.equal(first(model, inputs), first(other, inputs))
    with catis.applied(other, "tome", r=3):
        assert torch.equal(first(model, inputs), first(other, inputs))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("name", NAMES)
def test_half_and_other_types(name: str, dtype: torch.dtype) -> None:
    model = catis.apply(build(name), "catis", r=3).to(dtype)
    found = first(model, inputs_for(model, dtype=dtype))
    assert found.dtype == dtype
    assert found.isfinite().all()


def test_gradient_checkpointing_gives_the_same_gradients() -> None:
    inputs = inputs_for(build("ViTForImageClassification"))
    gradients = []
    for checkpointing in (False, True):
        model = catis.apply(build("ViTForImageClassification"), "catis", r=3).train()
        if checkpointing:
            model.gradient_checkpointing_enable()
        model(**inputs, labels=torch.tensor([0, 1])).loss.backward()
        gradients.append(torch.cat([weight.grad.flatten() for weight in model.vit.layers.parameters()]))
    torch.testing.assert_close(*gradients)


def test_compiles_without_a_graph_break() -> None:
    model = catis.apply(build("DINOv3ViTModel"), "catis", r=3)
    inputs = inputs_for(model)
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    torch.testing.assert_close(first(compiled, inputs), first(model, inputs))


@pytest.mark.parametrize("apply_first", [True, False])
def test_accelerate_hooks(apply_first: bool) -> None:
    inputs = inputs_for(build("ViTForImageClassification"))
    expected = first(catis.apply(build("ViTForImageClassification"), "tome", r=3), inputs)
    model = build("ViTForImageClassification")
    plain = first(model, inputs)
    if apply_first:
        catis.apply(model, "tome", r=3)
    model = accelerate.dispatch_model(model, {"vit": "cpu", "classifier": "cpu"}, main_device="cpu", force_hooks=True)
    catis.apply(model, "tome", r=3)
    assert torch.equal(first(model, inputs), expected)
    catis.remove(model)
    assert torch.equal(first(model, inputs), plain)
    accelerate.hooks.remove_hook_from_module(model, recurse=True)
    assert torch.equal(first(catis.apply(model, "tome", r=3), inputs), expected)


def test_weights_on_disk(tmp_path: Path) -> None:
    inputs = inputs_for(build("ViTForImageClassification"))
    expected = first(catis.apply(build("ViTForImageClassification"), "tome", r=3), inputs)
    model = accelerate.disk_offload(build("ViTForImageClassification"), tmp_path, execution_device="cpu")
    assert torch.equal(first(catis.apply(model, "tome", r=3), inputs), expected)


@pytest.mark.parametrize("name", ["ViTForImageClassification", "ViTModel"])
def test_the_saved_model_is_the_plain_one_with_a_recipe_beside_it(name: str, tmp_path: Path) -> None:
    model = build(name)
    inputs = inputs_for(model)
    plain = first(model, inputs)
    catis.apply(model, "catis", r=[3, 2, 0, 1], tau=0.7, prop_attn=False)
    reduced = first(model, inputs)
    model.save_pretrained(tmp_path)
    written = catis.save_recipe(model, tmp_path, command="by hand")
    assert written.name == FILE_NAME
    assert json.loads(written.read_text())["notes"] == {"command": "by hand"}
    assert json.loads((tmp_path / "config.json").read_text())["architectures"] == [name]
    loaded = getattr(hf, name).from_pretrained(tmp_path).eval()
    assert torch.equal(first(loaded, inputs), plain)
    assert torch.equal(first(catis.apply(loaded, recipe=tmp_path), inputs), reduced)
    again = hf.AutoModel.from_pretrained(tmp_path).eval()
    catis.apply(again, recipe=load_recipe(written))
    assert again.catis_reduction == (loaded.vit if hasattr(loaded, "vit") else loaded).catis_reduction


def test_recipes_as_mappings_toml_and_what_is_refused(tmp_path: Path) -> None:
    model = build("ViTModel")
    file = tmp_path / "recipe.toml"
    file.write_text('method = "tome"\nr = 0.25\n')
    catis.apply(model, recipe=file)
    assert model.catis_reduction.schedule.r == 0.25
    catis.apply(model, recipe={"method": "mctf", "r": 2, "options": {"reference": True, "blocks": [1, 2]}})
    assert model.catis_reduction.method.blocks == (1, 2)
    with pytest.raises(ValueError, match="recipe= was given together with r"):
        catis.apply(model, recipe=Recipe(Reduction.of("tome", 3)), r=3)
    with pytest.raises(ValueError, match="unknown keys rr"):
        catis.apply(model, recipe={"method": "tome", "rr": 3})
    with pytest.raises(ValueError, match="not a recipe"):
        load_recipe({"r": 3})
    with pytest.raises(FileNotFoundError):
        load_recipe(tmp_path)
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(ValueError, match="not valid JSON"):
        load_recipe(tmp_path / "broken.json")
    with pytest.raises(ValueError, match="is not reduced"):
        catis.save_recipe(catis.remove(model), tmp_path)


def test_pipeline() -> None:
    model = build("ViTForImageClassification")
    processor = hf.ViTImageProcessor(size={"height": 32, "width": 32})
    image = Image.effect_noise((40, 30), 80).convert("RGB")
    plain = hf.pipeline("image-classification", model=model, image_processor=processor)(image, top_k=5)
    catis.apply(model, "tome", r=3)
    found = hf.pipeline("image-classification", model=model, image_processor=processor)([image, image], top_k=5)
    assert len(found) == 2
    assert found[0] == found[1]
    assert {row["label"] for row in found[0]} == {row["label"] for row in plain}
    assert found[0] != plain
    logits = first(model, dict(processor(image, return_tensors="pt")))
    best = max(found[0], key=lambda row: row["score"])
    assert best["score"] == pytest.approx(float(logits.softmax(-1).max()), rel=1e-5)


def test_trainer_evaluate(tmp_path: Path) -> None:
    model = catis.apply(build("ViTForImageClassification"), "catis", r=3)
    images = torch.randn(6, 3, 32, 32)
    data = [{"pixel_values": image, "labels": index % 5} for index, image in enumerate(images)]
    arguments = hf.TrainingArguments(str(tmp_path), per_device_eval_batch_size=4, report_to=[], use_cpu=True)
    trainer = hf.Trainer(model, arguments, eval_dataset=data)
    with torch.no_grad():
        logits = model(images).logits
    expected = float(nn.functional.cross_entropy(logits, torch.tensor([0, 1, 2, 3, 4, 0])))
    assert trainer.evaluate()["eval_loss"] == pytest.approx(expected, rel=1e-4)
    torch.testing.assert_close(torch.from_numpy(trainer.predict(data).predictions), logits, rtol=0, atol=1e-5)


def shapes(model: nn.Module, inputs: dict[str, torch.Tensor]) -> dict[str, torch.Size] | str:
    """Of every output; or the error, where transformers itself takes no empty batch."""
    try:
        return {name: tensor.shape for name, tensor in tensors(model(**inputs)).items()}
    except RuntimeError as error:
        return str(error)


@pytest.mark.parametrize("name", sorted(BUILDERS))
def test_an_empty_batch_has_vanillas_result(name: str) -> None:
    model = build(name)
    inputs = inputs_for(model, batch=0)
    with torch.no_grad():
        expected = shapes(model, inputs)
        for method in ("tome", "mctf" if hosts.find(model).facts.has_cls else "pitome"):
            assert shapes(catis.apply(model, method, r=2), inputs) == expected
