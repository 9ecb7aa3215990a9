"""Whole tiny models under each baseline's reference mode, against logits recorded from the authors' code."""

import pytest
import timm.models.vision_transformer as vit
import torch

import catis
from catis.hosts.timm_parts import VitBlockParts
from catis.native import accelerator

from . import files
from .files import block_view, cases, load, source_matrix


def _model(golden):
    params = golden.params
    class_token = params.get("class_token", True)
    model = vit.VisionTransformer(
        img_size=32,
        patch_size=4,
        embed_dim=32,
        depth=4,
        num_heads=4,
        mlp_ratio=2,
        num_classes=10,
        class_token=class_token,
        global_pool=params.get("global_pool", "token"),
    )
    weights = {key[3:]: value for key, value in golden.arrays.items() if key.startswith("sd/")}
    model.load_state_dict(weights)
    return model.to(golden.dtype).eval()


def _arguments(golden):
    """How `catis.apply` asks for what the authors' code did."""
    params = golden.params
    if params["fn"].startswith("tome."):
        r = tuple(params["r"]) if isinstance(params["r"], list) else params["r"]
        return {"method": "tome", "reference": True, "r": r, "prop_attn": params["prop_attn"]}
    if "PiToMe algo/tome" in params["fn"]:
        return {"method": "tome", "reference": True, "ratio": params["ratio"]}
    if "PiToMe algo/pitome" in params["fn"]:
        order = "deit" if params["use_bsm_pitome"][0] else "mae"
        return {"method": "pitome", "reference": True, "ratio": params["ratio"], "order": order}
    r, _, _, prop, ahead, *_ = params["mctf_type"]
    layers = tuple(params["activate_layer"])
    own = {"one_step_ahead": ahead, "blocks": layers}
    return {"method": "mctf", "reference": True, "r": r, "prop_attn": bool(prop)} | own


@pytest.mark.parametrize("name", [name for name in cases("e2e_*") if name != "e2e_tome_attention"])
def test_logits(name, dtype, monkeypatch):
    golden = load(name, dtype)
    model = _model(golden)
    image = golden["image"]
    if golden.get("base_logits") is not None:
        golden.check(model(image), "base_logits")
    catis.apply(model, **_arguments(golden))
    decided = _count_decisions(monkeypatch)
    with torch.no_grad():
        golden.check(model(image), "logits")
    reduces = not model.catis_reduction.is_vanilla and model.catis_reduction.method.name != "mctf"
    assert bool(decided) == (files.COMPILED is not None and reduces)


def _count_decisions(monkeypatch):
    """What the compiled functions decide from now on; MCTF's reference form has a block of its own, without them."""
    decided, decide = [], accelerator.Compiled.decide

    def count(self, method, view):
        plan = decide(self, method, view)
        decided.append(plan is not None)
        assert plan is not None
        return plan

    monkeypatch.setattr(accelerator.Compiled, "decide", count)
    return decided


TRACED = [name for name in cases("e2e_*") if "final_source" in load(name, torch.float64).arrays]


@pytest.mark.parametrize("name", TRACED)
def test_sources_and_sizes(name, dtype):
    golden = load(name, dtype)
    model = catis.apply(_model(golden), **_arguments(golden))
    if golden.params.get("r") == 0:
        pytest.skip("nothing is removed")
    last = catis.trace(model, golden["image"])[-1]
    prefix = model.num_prefix_tokens
    lengths = [block.tokens_left + prefix for block in catis.trace(model, golden["image"])]
    assert lengths == golden.params["lens"]
    assert torch.equal(last.size.to(dtype), golden["final_size"][:, prefix:, 0])
    assert torch.equal(source_matrix(last.state, last.tokens_left), golden["final_source"])


def test_attention_and_metric(dtype):
    golden = load("e2e_tome_attention", dtype)
    weights = {key[3:]: value.to(dtype) for key, value in golden.arrays.items() if key.startswith("sd/")}
    block = vit.Block(32, golden.params["num_heads"], qkv_bias=True).to(dtype).eval()
    block.attn.load_state_dict(weights)
    parts, x = VitBlockParts(block), golden["x"]
    projection = parts.project(x, None)
    bias = golden["size"].log()[:, None, None, :, 0]
    golden.check(parts.output(parts.mix(projection, None), x), "out_noprop")
    golden.check(parts.output(parts.mix(projection, bias), x), "out_prop")
    golden.check(block_view(x, 1, 0, content_key=projection.content_key).metric(), "metric")
