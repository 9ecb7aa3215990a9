"""PiToMe against its authors' numbers: energies, both splits, merges, sources."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from catis.core.execute import group_sum
from catis.methods.pitome import PiToMe, plan_pure
from catis.reference.ratio import PiToMeReference

from .files import block_view, cases, decide, load, run, source_matrix, start


def _plan(golden, prefix):
    """In block 0 the margin is the option itself, and "deit" begins with bsm, "mae" with pure."""
    order = "deit" if golden.params["use_bsm_pitome"] else "mae"
    method = PiToMe(margin=golden.params["margin"], order=order)
    return decide(method, block_view(golden["metric"], golden.params["r"], prefix, explain=True))


@pytest.mark.parametrize("name", cases("pitome_cls*", "pitome_plain", "pitome_rmax", "pitome_bsm*", "pitome_vit*"))
def test_vision(name, dtype):
    golden = load(name, dtype)
    prefix, x, size = int(golden.params["class_token"]), golden["x"], golden.get("size")
    plan = _plan(golden, prefix)
    golden.check(plan.notes["score"], "energy")
    side_a, side_b = golden["a_idx"], golden["b_idx"]
    if golden.params["use_bsm_pitome"]:
        assert torch.equal(plan.removed, side_a.gather(1, golden["src_idx"]))
        assert torch.equal(plan.keep, torch.cat([side_a.gather(1, golden["unm_idx"]), side_b], 1))
    else:
        assert torch.equal(plan.removed, side_a)
        assert torch.equal(plan.keep, torch.cat([golden["protected_idx"], side_b], 1))
    assert torch.equal(plan.keep.gather(1, plan.target), side_b.gather(1, golden["dst_idx"]))
    merged, state = run(plan, x, start(x, prefix, size))
    golden.check(merged, "wavg_x")
    assert torch.equal(state.size.to(dtype), golden["wavg_size"][:, prefix:, 0])
    assert torch.equal(source_matrix(state, plan.num_kept), golden["source"])
    golden.check(run(replace(plan, blend="mean"), x, start(x, prefix))[0], "merge_mean")
    golden.check(run(replace(plan, target=None), x, start(x, prefix))[0], "merge_prune")


def test_direct(dtype):
    golden = load("pitome_direct_r4", dtype)
    unit = F.normalize(golden["metric"], dim=-1)
    plan = plan_pure(unit, golden["indices"], golden.params["r"])
    assert torch.equal(plan.removed, golden["a_idx"])
    assert torch.equal(plan.keep, torch.cat([golden["protected_idx"], golden["b_idx"]], 1))
    assert torch.equal(plan.keep.gather(1, plan.target), golden["b_idx"].gather(1, golden["dst_idx"]))
    x = golden["x"]
    golden.check(run(replace(plan, blend="mean"), x, start(x, 0))[0], "merge_mean")
    golden.check(torch.stack([group_sum(plan, x[..., channel]) for channel in range(x.shape[2])], -1), "merge_sum")


def test_method_uses_margin_and_variant_of_its_block():
    golden = load("pitome_cls_m0375", torch.float64)
    view = block_view(golden["metric"], golden.params["r"], 1, block=6, depth=12)
    ours = PiToMe().plan(view)
    assert torch.equal(ours.keep, _plan(golden, 1).keep)
    early = PiToMe().plan(replace(view, block=0))
    assert not torch.equal(early.keep, ours.keep)


def test_reference_amount_counts_patches_only():
    golden = load("pitome_vit_m06", torch.float64)
    assert PiToMeReference(ratio=golden.params["ratio"]).amount(None, 0, 196, 1) == golden.params["r"]
