"""ToFu against the public code, quirk and all, and against the norm-preserving average of the paper."""

import json
from dataclasses import replace

import pytest
import torch

from catis.methods.tofu import ToFu
from catis.reference.ratio import ToFuReference

from .files import DATA, block_view, cases, decide, load, run, start


@pytest.mark.parametrize("name", cases("tofu_*"))
def test_blends(name, dtype):
    golden = load(name, dtype)
    prefix, x, r = int(golden.params["class_token"]), golden["x"], golden.params["r"]
    late = block_view(golden["metric"], r, prefix, block=11)
    plan = decide(ToFu(), late)
    assert torch.equal(plan.removed, 2 * golden["src_idx"] - prefix)
    assert torch.equal(plan.keep.gather(1, plan.target), 2 * golden["dst_idx"] + 1 - prefix)
    arrays = {"mlerp": "paper_mlerp", "mlerp_dst": "merge_tofu", "mean": "merge_mean", "max": "merge_amax"}
    for blend, key in arrays.items():
        golden.check(run(replace(plan, blend=blend), x, start(x, prefix))[0], key)
    assert plan.blend == "mlerp"
    assert decide(ToFuReference(ratio=0.9), late).blend == "mlerp_dst"
    assert decide(ToFuReference(ratio=0.9, late="mean"), late).blend == "mean"
    pruned = decide(ToFu(), block_view(golden["metric"], r, prefix, block=0))
    golden.check(run(pruned, x, start(x, prefix))[0], "merge_prune")


@pytest.mark.parametrize("depth", ["12", "24", "32"])
def test_strategies(depth):
    expected = json.loads((DATA / "tofu_strategies.json").read_text())[depth]
    names = {None: "prune", "mlerp_dst": "tofu"}
    for patch, late in (("deit", "tofu"), ("mae", "mean")):
        method = ToFuReference(ratio=0.9, late=late)
        ours = [method.blend(block, int(depth)) for block in range(int(depth))]
        assert [names.get(blend, blend) for blend in ours] == expected[patch]


def test_reference_amount_is_the_ratio_rule():
    golden = load("tofu_vit", torch.float64)
    method = ToFuReference(ratio=golden.params["ratio"])
    assert method.amount(None, 0, 196, 1) == golden.params["r"]
    with pytest.raises(ValueError, match=r"ratio=0.3 removes 137 of 196 patch tokens"):
        ToFuReference(ratio=0.3).amount(None, 0, 196, 1)
