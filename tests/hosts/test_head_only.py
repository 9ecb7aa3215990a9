"""A last block for the head alone: the same logits to rounding, fewer multiply-adds, and off wherever it would show."""

import copy
import pickle

import pytest
import timm
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import catis
from catis.core.reduction import Reduction

from . import families, hf_models

PREFIX_HEADS = ["vit", "deit", "deit-distilled", "deit3", "dinov2", "dinov2-reg", "clip", "qk-norm", "dynamic"]
ROTARY = ["eva02", "dinov3", "dinov3-qkvb", "rope-mixed", "pe"]
CLASSIFIERS = ["ViTForImageClassification", "DeiTForImageClassification", "DeiTForImageClassificationWithTeacher"]
DENSE = sorted(set(hf_models.BUILDERS) - set(CLASSIFIERS))


def timm_model(family, dtype=torch.float64):
    model = families.build(family, dtype=torch.float32 if family in families.FLOAT32_ONLY else dtype)
    if family in ROTARY:  # they average by default; a token pool is a constructor's argument of theirs
        name, options = families.FAMILIES[family]
        weights, dtype = model.state_dict(), next(model.parameters()).dtype
        model = timm.create_model(name, depth=4, num_classes=10, **{**options, "global_pool": "token"}).eval().to(dtype)
        missing = model.load_state_dict(weights, strict=False).missing_keys
        assert all("norm" in key for key in missing)
    return model


@pytest.mark.parametrize("family", PREFIX_HEADS + ROTARY)
@pytest.mark.parametrize("r", [0, 3])
@pytest.mark.parametrize("fused", [True, False], ids=["fused", "plain"])
def test_timm_logits_are_the_same(family, r, fused):
    model = timm_model(family)
    for block in model.blocks:
        block.attn.fused_attn = fused
    x = families.images(model, dtype=next(model.parameters()).dtype)
    amounts = [r, r, r, 0]  # a block that leaves prefix tokens alone has nothing to remove
    with torch.no_grad():
        full = catis.apply(model, "catis", r=amounts)(x)
        ours = catis.apply(model, "catis", r=r, head_only=True)(x)
    tolerance = 1e-5 if family in families.FLOAT32_ONLY else 1e-12
    torch.testing.assert_close(ours, full, rtol=tolerance, atol=tolerance)
    assert not model.catis_reduction.is_vanilla


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("r", [0, 2])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_transformers_logits_are_the_same(name, r, attention):
    model = hf_models.build(name, attention).double()
    inputs = hf_models.inputs_for(model, dtype=torch.float64)
    with torch.no_grad():
        full = catis.apply(model, "tome", r=[r, r, r, 0])(**inputs)
        catis.apply(model, "tome", r=r, head_only=True)
        ours = model(**inputs)
        torch.testing.assert_close(hf_models.tensors(ours), hf_models.tensors(full), rtol=1e-12, atol=1e-12)
        inside = getattr(model, "vit" if name.startswith("ViT") else "deit")
        assert inside(**inputs).last_hidden_state.shape[1] == inside.config.image_size**2 // 64 + 1 + ("D" in name)
        hidden = model(**inputs, output_hidden_states=True).hidden_states
        assert len({state.shape for state in hidden}) == 1
        assert isinstance(model(**inputs, return_dict=False), tuple)
    assert type(catis.remove(model)) is type(hf_models.build(name))


@pytest.mark.parametrize("name", CLASSIFIERS[:2])
def test_transformers_loss_and_copies(name):
    model = catis.apply(hf_models.build(name), "tome", r=2, head_only=True)
    inputs = {**hf_models.inputs_for(model), "labels": torch.tensor([1, 3])}
    loss = model(**inputs).loss
    loss.backward()
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):  # noqa: S301
        assert torch.equal(other(**inputs).loss, loss)
        assert "head-only" in repr(other)


@pytest.mark.parametrize("name", DENSE)
def test_transformers_models_that_read_more_refuse_it(name):
    model = hf_models.build(name)
    inputs = hf_models.inputs_for(model)
    before = hf_models.tensors(model(**inputs))
    with pytest.raises(ValueError, match="head_only=True: the last block may leave out"):
        catis.apply(model, "tome", r=2, head_only=True)
    after = hf_models.tensors(model(**inputs))
    assert all(torch.equal(after[key], before[key]) for key in before)


@pytest.mark.parametrize("family", ["siglip-map", "gap", "reg4-gap", "siglip-gap"])
def test_timm_pools_that_read_more_refuse_it(family):
    with pytest.raises(ValueError, match=r"head_only=True.*reads every token"):
        catis.apply(families.build(family), "tome", r=2, head_only=True)
    with pytest.raises(ValueError, match="in a way of its own"):
        catis.apply(families.build("vit"), "mctf", r=2, head_only=True, reference=True)


def listeners(model):
    last = model.blocks[-1]
    return {"block": last, "attention": last.attn, "mlp": last.mlp.fc1, "norm": model.norm, "blocks": model.blocks}


@pytest.mark.parametrize("where", ["block", "attention", "mlp", "norm", "blocks"])
def test_a_listener_hears_all_tokens(where):
    model = catis.apply(families.build("vit"), "tome", r=3, head_only=True)
    x, heard = families.images(model), []
    expected = model(x)
    listeners(model)[where].register_forward_hook(lambda module, inputs, output: heard.append(output.shape[1]))
    torch.testing.assert_close(model(x), expected)
    assert heard == [16 - 9 + 1]


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("where", ["layers.3", "layers.3.mlp", "layernorm"])
def test_a_listener_on_transformers_hears_all_tokens(name, where):
    model = catis.apply(hf_models.build(name), "tome", r=2, head_only=True)
    inputs, heard = hf_models.inputs_for(model), []
    expected = model(**inputs).logits
    inside = getattr(model, "vit" if name.startswith("ViT") else "deit")
    module = inside.get_submodule(where)
    handle = module.register_forward_hook(
        lambda module, given, output: heard.append((output[0] if isinstance(output, tuple) else output).shape[1])
    )
    torch.testing.assert_close(model(**inputs).logits, expected)
    assert heard == [16 - 6 + 1 + ("D" in name)]
    handle.remove()
    assert torch.equal(model(**inputs).logits, expected)


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("r", [0, 2])
def test_transformers_are_counted_as_they_are_computed(name, r):
    model = catis.apply(hf_models.build(name).requires_grad_(False), "tome", r=r, head_only=True)
    with FlopCounterMode(display=False) as counter:
        model(**hf_models.inputs_for(model, batch=1))
    heads = sum(layer.weight.numel() for layer in model.children() if isinstance(layer, nn.Linear))  # not in the count
    assert catis.gmacs(model, overhead=True) == pytest.approx(counter.get_total_flops() / 2e9 - heads / 1e9, rel=1e-6)
    assert catis.gmacs(model) < catis.gmacs(model, "tome", r=r)


def test_dense_outputs_and_traces_have_all_tokens():
    model = families.build("vit", dtype=torch.float64)
    x = families.images(model, dtype=torch.float64)
    catis.apply(model, "tome", r=[3, 3, 3, 0])
    features, maps = model.forward_features(x), model.forward_intermediates(x, indices=2, intermediates_only=True)
    early = model.forward_intermediates(x, indices=[1], stop_early=True, intermediates_only=True)
    catis.apply(model, "tome", r=3, head_only=True)
    assert torch.equal(model.forward_features(x), features)
    for ours, theirs in zip(model.forward_intermediates(x, indices=2, intermediates_only=True), maps, strict=True):
        assert torch.equal(ours, theirs)
    assert torch.equal(model.forward_intermediates(x, [1], stop_early=True, intermediates_only=True)[0], early[0])
    assert [block.tokens_left for block in catis.trace(model, x)] == [13, 10, 7, 7]


@pytest.mark.parametrize("family", ["vit", "deit-distilled", "dinov2-reg", "qk-norm"])
@pytest.mark.parametrize("r", [0, 3])
def test_counted_as_it_is_computed(family, r):
    model = catis.apply(families.build(family).requires_grad_(False), "tome", r=r, head_only=True)
    with FlopCounterMode(display=False) as counter:
        model(families.images(model, batch=1))
    assert catis.gmacs(model, overhead=True) == pytest.approx(counter.get_total_flops() / 2e9, rel=1e-6)
    assert catis.gmacs(model) < catis.gmacs(model, "tome", r=r)


def test_one_in_a_module_around_and_wrapped_projections():
    class Around(nn.Module):
        def __init__(self, vit):
            super().__init__()
            self.vit = vit

        def forward(self, x):
            return self.vit(x), self.vit.forward_features(x)

    class Adapted(nn.Linear):
        def forward(self, x):
            return super().forward(x) + x.mean(-1, keepdim=True)

    vit = families.build("vit", dtype=torch.float64)
    vit.blocks[-1].attn.qkv.__class__ = Adapted
    model, x = Around(vit), families.images(vit, dtype=torch.float64)
    full, features = catis.apply(model, "tome", r=[3, 3, 3, 0])(x)
    ours, same = catis.apply(model, "tome", r=3, head_only=True)(x)
    torch.testing.assert_close(ours, full, rtol=1e-12, atol=1e-12)
    assert torch.equal(same, features)


def test_gradients_with_and_without_checkpointing():
    model = families.build("vit", dtype=torch.float64)
    x = families.images(model, dtype=torch.float64).requires_grad_()
    grads = []
    for amounts, head_only, again in (([3, 3, 3, 0], False, False), (3, True, False), (3, True, True)):
        catis.apply(model, "catis", r=amounts, head_only=head_only).set_grad_checkpointing(again)
        grads.append(torch.autograd.grad(model(x).sum(), x)[0])
    torch.testing.assert_close(grads[1], grads[0], rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(grads[2], grads[1], rtol=1e-10, atol=1e-10)


def test_its_text_and_json():
    reduction = Reduction.of("tome", 8, head_only=True)
    assert str(reduction) == "tome r=8 head-only"
    assert Reduction.from_json(reduction.to_json()) == reduction != Reduction.of("tome", 8)
    assert str(Reduction.of("vanilla", head_only=True)) == "vanilla head-only"
    assert "head_only" not in Reduction.of("tome", 8).to_json()


def test_compile_and_export():
    model = catis.apply(families.build("vit"), "catis", r=3, head_only=True)
    x = families.images(model)
    with torch.no_grad():
        expected = model(x)
        torch.testing.assert_close(torch.compile(model, fullgraph=True, backend="eager")(x), expected)
        torch.testing.assert_close(torch.export.export(model, (x,)).module()(x), expected)
