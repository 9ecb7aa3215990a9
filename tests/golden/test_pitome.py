"""PiToMe against its authors' numbers: energies, both splits, merges, sources."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from catis.core.arrays import arrays_for
from catis.core.execute import execute, group_sum
from catis.methods.pitome import PiToMe, energy, plan_bsm, plan_pure

from .files import block_view, cases, load, source_matrix, start


def _plan(golden, prefix):
    unit = F.normalize(golden["metric"][:, prefix:], dim=-1)
    scores = energy(unit, golden.params["margin"])
    xp = arrays_for(scores)
    split = plan_bsm if golden.params["use_bsm_pitome"] else plan_pure
    return scores, split(xp, unit, xp.order(xp.read(scores), descending=True), golden.params["r"])


@pytest.mark.parametrize("name", cases("pitome_cls*", "pitome_plain", "pitome_rmax", "pitome_bsm*", "pitome_vit*"))
def test_vision(name, dtype):
    golden = load(name, dtype)
    prefix, x, size = int(golden.params["class_token"]), golden["x"], golden.get("size")
    scores, plan = _plan(golden, prefix)
    golden.check(scores, "energy")
    side_a, side_b = golden["a_idx"], golden["b_idx"]
    if golden.params["use_bsm_pitome"]:
        assert torch.equal(plan.removed, side_a.gather(1, golden["src_idx"]))
        assert torch.equal(plan.keep, torch.cat([side_a.gather(1, golden["unm_idx"]), side_b], 1))
    else:
        assert torch.equal(plan.removed, side_a)
        assert torch.equal(plan.keep, torch.cat([golden["protected_idx"], side_b], 1))
    assert torch.equal(plan.keep.gather(1, plan.target), side_b.gather(1, golden["dst_idx"]))
    merged, state = execute(plan, x, start(x, prefix, size))
    golden.check(merged, "wavg_x")
    assert torch.equal(state.size.to(dtype), golden["wavg_size"][:, prefix:, 0])
    assert torch.equal(source_matrix(state, plan.num_kept), golden["source"])
    golden.check(execute(replace(plan, blend="mean"), x, start(x, prefix))[0], "merge_mean")
    golden.check(execute(replace(plan, target=None), x, start(x, prefix))[0], "merge_prune")


def test_direct(dtype):
    golden = load("pitome_direct_r4", dtype)
    unit = F.normalize(golden["metric"], dim=-1)
    xp = arrays_for(unit)
    plan = plan_pure(xp, unit, xp.read(golden["indices"]), golden.params["r"])
    assert torch.equal(plan.removed, golden["a_idx"])
    assert torch.equal(plan.keep, torch.cat([golden["protected_idx"], golden["b_idx"]], 1))
    assert torch.equal(plan.keep.gather(1, plan.target), golden["b_idx"].gather(1, golden["dst_idx"]))
    x = golden["x"]
    golden.check(execute(replace(plan, blend="mean"), x, start(x, 0))[0], "merge_mean")
    golden.check(torch.stack([group_sum(plan, x[..., channel]) for channel in range(x.shape[2])], -1), "merge_sum")


def test_method_uses_margin_and_variant_of_its_layer():
    golden = load("pitome_cls_m0375", torch.float64)
    view = block_view(golden["metric"], golden.params["r"], 1, layer=6, depth=12)
    ours = PiToMe().plan(view)
    assert torch.equal(ours.keep, _plan(golden, 1)[1].keep)
    early = PiToMe().plan(replace(view, layer=0))
    assert not torch.equal(early.keep, ours.keep)


def test_reference_amount_counts_patches_only():
    golden = load("pitome_vit_m06", torch.float64)
    assert PiToMe(reference=True, ratio=golden.params["ratio"]).amount(None, 0, 196, 1) == golden.params["r"]
