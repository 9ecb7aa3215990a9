"""Calibrated weights on a model: what runs, what is saved, and that the old ones come back bit for bit."""

from __future__ import annotations

import copy
import io
import pickle
import threading

import pytest
import torch
import transformers as hf
from torch import Tensor, nn

import catis
from catis import hosts
from catis.hosts.correction import Correction
from catis.hosts.swap import EXCHANGES
from catis.inference import shared_copy
from catis.recipes import load_recipe

from .families import build
from .hf_models import build as build_hf


def model_and_layers(library: str) -> tuple[nn.Module, list[str]]:
    model = build("vit") if library == "timm" else build_hf("ViTForImageClassification")
    names = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    return model.eval(), [names[0], names[3], names[-1]]  # some of the blocks, and the classifier


def corrected(model: nn.Module, layers: list[str], r: int = 3) -> Correction:
    """A model under tome with some layers changed; a fit would have chosen the values."""
    handle = hosts.find(catis.apply(model, "tome", r=r))
    values = {
        name: weight.detach() * 1.5 + 0.01
        for name, weight in model.named_parameters()
        if name.rpartition(".")[0] in layers
    }
    correction = handle.correction_of(values)
    catis.apply(model, "tome", r=r, correction=correction)
    return correction


def run(model: nn.Module, x: Tensor) -> Tensor:
    with torch.no_grad():
        found = model(x)
    return found if isinstance(found, Tensor) else found[0]


def images(model: nn.Module) -> Tensor:
    return torch.randn(hosts.find(model).example_shape(2), generator=torch.Generator().manual_seed(0))


def bits(model: nn.Module) -> dict[str, Tensor]:
    return {name: weight.detach().clone() for name, weight in model.state_dict().items()}


def same(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("library", ["timm", "transformers"])
def test_on_and_off_bit_for_bit(library):
    model, layers = model_and_layers(library)
    x, before, objects = images(model), bits(model), dict(model.named_parameters())
    attributes = [set(vars(module)) for module in model.modules()]
    vanilla = run(model, x)
    reduced = run(catis.apply(model, "tome", r=3), x)
    correction = corrected(model, layers)
    calibrated = run(model, x)
    assert not torch.equal(calibrated, reduced)
    assert hosts.find(model).correction is correction
    assert same(hosts.find(model).vanilla_weights, before)
    assert same({name: model.state_dict()[name] for name in correction.values}, dict(correction.values))
    assert "calibrated" in repr(model)
    assert catis.info(model).calibrated
    catis.apply(model, "tome", r=3, correction=correction)  # twice is once
    assert torch.equal(run(model, x), calibrated)
    catis.apply(model, "tome", r=3)  # another reduction, or the same alone, takes it off
    assert torch.equal(run(model, x), reduced)
    with catis.applied(model, "tome", r=3, correction=correction):
        assert torch.equal(run(model, x), calibrated)
        with catis.applied(model, "tofu", r=2):
            assert hosts.find(model).correction is None
        assert torch.equal(run(model, x), calibrated)
    assert torch.equal(run(model, x), reduced)
    catis.apply(model, "tome", r=3, correction=correction)
    catis.remove(model)
    assert same(bits(model), before)
    assert torch.equal(run(model, x), vanilla)
    assert all(weight is objects[name] for name, weight in model.named_parameters())
    assert [set(vars(module)) - {EXCHANGES} for module in model.modules()] == attributes  # but for a count


@pytest.mark.parametrize("library", ["timm", "transformers"])
def test_copies_and_pickles_are_whole(library):
    model, layers = model_and_layers(library)
    x, before = images(model), bits(model)
    corrected(model, layers)
    expected = run(model, x)
    buffer = io.BytesIO()
    torch.save(model, buffer)
    buffer.seek(0)
    twins = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]  # noqa: S301
    for twin in (*twins, torch.load(buffer, weights_only=False)):
        assert torch.equal(run(twin, x), expected)
        catis.remove(twin)
        assert same(bits(twin), before)
        assert torch.equal(run(model, x), expected)


def test_models_that_share_weights_do_not_share_a_correction():
    model, layers = model_and_layers("timm")
    twin, x = shared_copy(model), images(model)
    vanilla = run(model, x)
    corrected(twin, layers)
    assert torch.equal(run(model, x), vanilla)
    assert twin.cls_token is model.cls_token


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_before_and_after(dtype):
    model, layers = model_and_layers("timm")
    half, before = copy.deepcopy(model).to(dtype), bits(model)
    correction = corrected(model, layers)
    catis.apply(half, "tome", r=3, correction=correction)  # the weights of the same model, cast
    assert same(bits(half), bits(model.to(dtype)))
    assert torch.isfinite(run(model, images(model).to(dtype))).all()
    catis.remove(model)
    assert same(bits(model), {name: weight.to(dtype) for name, weight in before.items()})
    with pytest.raises(ValueError, match=r"calibrated for a model in float32, .*; this one is in float64"):
        catis.apply(model.double(), "tome", r=3, correction=correction)


def test_foreign_weights_and_reductions_are_refused_and_change_nothing():
    model, layers = model_and_layers("timm")
    correction = corrected(model, layers)
    other = build("vit")
    with torch.no_grad():
        other.cls_token[0, 0, 0] += 1e-3
    before = bits(other)
    with pytest.raises(ValueError, match=rf"hash {correction.hashes['float32']}, this model's have [0-9a-f]{{32}}"):
        catis.apply(other, "tome", r=3, correction=correction)
    assert same(bits(other), before)
    assert hosts.find(other).reduction is None
    with pytest.raises(ValueError, match=r"another reduction .*r was 3, is 2"):
        catis.apply(model, "tome", r=2, correction=correction)
    with pytest.raises(ValueError, match="prop_attn was True, is False"):
        catis.apply(model, "tome", r=3, prop_attn=False, correction=correction)
    assert hosts.find(model).correction is correction
    with pytest.raises(ValueError, match="removes nothing"):
        hosts.find(catis.apply(model, "tome", r=0)).correction_of({})


def test_parameters_that_cannot_be_replaced():
    model, layers = model_and_layers("timm")
    correction = corrected(model, layers)
    name = next(iter(correction.values))
    handle, reduction = hosts.find(catis.remove(model)), correction.reduction
    with pytest.raises(ValueError, match=r"no parameter nothing.weight"):
        handle.install(reduction, Correction({"nothing.weight": torch.ones(2)}, reduction))
    with pytest.raises(ValueError, match="has the shape"):
        handle.install(reduction, Correction({name: torch.ones(1)}, reduction))
    first, second = model.blocks[0].mlp.fc1, model.blocks[1].mlp.fc1
    original, kept, second.weight = first.weight, second.weight, first.weight
    with pytest.raises(ValueError, match="are one parameter"):
        handle.install(reduction, Correction({"blocks.0.mlp.fc1.weight": first.weight.detach()}, reduction))
    second.weight = kept
    first.weight = nn.Parameter(first.weight.detach().to(torch.int8), requires_grad=False)
    with pytest.raises(ValueError, match="put calibrated weights on first, then quantise"):
        handle.install(reduction, Correction({"blocks.0.mlp.fc1.weight": kept.detach()}, reduction))
    first.weight = original
    assert handle.reduction is None
    with pytest.raises(ValueError, match="meta device"):
        catis.apply(copy.deepcopy(model).to("meta"), "tome", r=3, correction=correction)
    catis.apply(model, "tome", r=3, correction=correction)
    model.get_submodule(name.rpartition(".")[0]).weight = nn.Parameter(torch.ones(1))
    with pytest.raises(ValueError, match="cannot be given back"):
        catis.remove(model)


def test_state_dict_is_what_runs_and_loading_one_is_refused():
    model, layers = model_and_layers("timm")
    before = bits(model)
    correction = corrected(model, layers)
    baked = catis.apply(build("vit").eval(), "tome", r=3)
    baked.load_state_dict(model.state_dict())
    assert torch.equal(run(baked, images(model)), run(model, images(model)))
    with pytest.raises(ValueError, match="holds the calibrated weights already"):
        catis.apply(baked, "tome", r=3, correction=correction)
    with pytest.raises(ValueError, match=r"call catis.remove"):
        model.load_state_dict(before)
    with pytest.raises(ValueError, match=r"call catis.remove"):
        nn.Sequential(model).load_state_dict({f"0.{name}": weight for name, weight in before.items()})
    catis.remove(model).load_state_dict(before)


def test_what_save_pretrained_writes_runs_without_the_correction(tmp_path):
    model, layers = model_and_layers("transformers")
    corrected(model, layers)
    expected = run(model, images(model))
    model.save_pretrained(tmp_path)
    catis.save_recipe(model, tmp_path)
    loaded = hf.ViTForImageClassification.from_pretrained(tmp_path).eval()
    with pytest.raises(ValueError, match=r"catis_recipe.json: .*holds the calibrated weights already"):
        catis.apply(loaded, recipe=tmp_path)
    catis.apply(loaded, load_recipe(tmp_path).reduction)
    assert torch.equal(run(loaded, images(model)), expected)


def test_gradients_go_to_the_calibrated_weights():
    model, layers = model_and_layers("timm")
    old = dict(model.named_parameters())
    frozen = f"{layers[0]}.weight"
    old[frozen].requires_grad_(False)
    correction = corrected(model, layers)
    model(images(model)).sum().backward()
    new = dict(model.named_parameters())
    for name in correction.values:
        assert old[name].grad is None
        assert (new[name].grad is None) == (name == frozen)
    with torch.no_grad():
        new[f"{layers[1]}.weight"].zero_()  # a step of training does not reach the correction, nor the old weights
    assert correction.values[f"{layers[1]}.weight"].abs().sum() > 0
    assert catis.remove(model).get_parameter(f"{layers[1]}.weight") is old[f"{layers[1]}.weight"]


def test_compiled_and_exported_models_have_the_new_weights():
    model, layers = model_and_layers("timm")
    x = images(model)
    correction = corrected(model, layers)
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    calibrated = run(model, x)
    torch.testing.assert_close(run(compiled, x), calibrated)
    program = torch.export.export(model, (x,))
    torch.testing.assert_close(run(program.module(), x), calibrated)
    assert all(torch.equal(program.state_dict[name], value) for name, value in correction.values.items())
    catis.apply(model, "tome", r=3)  # the compiled model follows
    torch.testing.assert_close(run(compiled, x), run(model, x))
    torch.testing.assert_close(run(program.module(), x), calibrated)  # the exported one is its own


def test_forward_while_another_thread_applies_and_removes():
    model, layers = model_and_layers("timm")
    x, correction = images(model), corrected(model, layers)
    stop, errors = threading.Event(), []

    def forward():
        while not stop.is_set():
            try:
                assert torch.isfinite(run(model, x)).all()
            except BaseException as error:  # handed to the test
                if "another thread put calibrated weights" not in str(error):  # tests/hosts/test_exchange.py
                    errors.append(error)
                    return

    threads = [threading.Thread(target=forward) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        catis.remove(model)
        catis.apply(model, "tome", r=3, correction=correction)
    stop.set()
    for thread in threads:
        thread.join()
    assert errors == []
