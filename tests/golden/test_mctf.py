"""MCTF against its authors' numbers: matching both ways, pooling, the one-step-ahead map, the amount rules."""

import json

import pytest
import torch

from catis.core.matching import alternate
from catis.core.schedule import Schedule
from catis.methods.mctf import MCTF
from catis.native.decide import fuse
from catis.native.library import load as load_kernels
from catis.reference.mctf import aggregate_map, authors_amount

from . import files
from .files import DATA, cases, load, run, source_matrix, start

POOLING = {0: "size", 1: "attention", 2: "max", 3: "mean"}


@pytest.mark.parametrize("name", cases("mctf_*"))
def test_fusion(name, dtype):
    golden = load(name, dtype)
    params, x, attention = golden.params, golden["x"], golden["attn"]
    prefix = params["num_protected"]
    method = MCTF(
        tau_sim=params["tau_sim"],
        tau_info=params["tau_info"],
        tau_size=params["tau_size"],
        bidirectional=bool(params["bidirection"]),
        pooling=POOLING[params["pooling_type"]],
    )
    state = start(x, prefix, golden.get("size"))
    plan = _fuse(method, x, attention.mean((1, 2))[:, prefix:], state.size, prefix, params["r"])
    _check_indices(golden, plan, prefix)
    merged, after = run(plan, x, state)
    golden.check(merged, "out_x")
    assert torch.equal(after.size.to(dtype), golden["out_size"][:, prefix:, 0])
    assert torch.equal(source_matrix(after, plan.num_kept), golden["source"])
    if params["one_step_ahead"] == 1:
        golden.check(aggregate_map(plan, attention, state), "out_attn")


def _fuse(method, x, received, size, prefix, r):
    """By the compiled functions where they are asked for and know the temperature of similarity."""
    if files.COMPILED is None or method.tau_sim not in (0.0, 1.0):
        return method.fuse(x[:, prefix:], received, size, prefix, r)
    plan = fuse(load_kernels(), method, x, received, size, prefix, r)
    assert plan is not None, "the compiled functions did not decide"
    return plan


def _check_indices(golden, plan, prefix):
    """First A -> B, then B -> the surviving A, as token positions."""
    first = 2 * golden["src_idx"] - prefix
    assert torch.equal(plan.removed[:, : first.shape[1]], first)
    if golden.get("src_idx2") is None or golden["src_idx2"].shape[1] == 0:
        assert torch.equal(plan.keep.gather(1, plan.target), 2 * golden["dst_idx"] + 1 - prefix)
        return
    second = 2 * golden["src_idx2"] + 1 - prefix
    assert torch.equal(plan.removed[:, first.shape[1] :], second)
    survivors = 2 * golden["unm_idx"] - prefix  # CLS, where there is one, is survivor 0
    destination = survivors.gather(1, golden["dst_idx2"])
    assert torch.equal(plan.keep.gather(1, plan.target)[:, first.shape[1] :], destination)
    num_b = len(range(golden["x"].shape[1] - prefix)[alternate(prefix)[1]]) - second.shape[1]
    assert torch.equal(plan.keep[:, -num_b:], 2 * golden["unm_idx2"] + 1 - prefix)


RULES = json.loads((DATA / "mctf_r_rules.json").read_text())


@pytest.mark.parametrize("case", RULES, ids=lambda case: f"{case['T']}-{case['r']}")
def test_amount_rules(case):
    schedule = Schedule.parse(case["r"])
    assert case["T"] - authors_amount(schedule, 0, case["T"]) == case["T_out"]
