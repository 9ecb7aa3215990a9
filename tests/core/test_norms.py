"""Norms of merged tokens: the mean norm of the members, in every executor, and nothing else changes."""

from dataclasses import replace

import pytest
import timm
import torch

import catis
from catis.core.execute import execute
from catis.core.reduction import Reduction
from tests.core.test_graph_merge import scene


def restored(blend: str, sized: bool = True, evicts: bool = False, prefix: int = 1):
    plan, x, state = scene(prefix, sized, evicts)
    weight = torch.rand(2, 8, generator=torch.Generator().manual_seed(1))
    plan = replace(plan, blend=blend, weight=weight)
    plain, after = execute(plan, x.clone(), state)
    tokens, same = execute(replace(plan, restore_norm=True), x.clone(), state)
    return plan, x, state, plain, tokens, (after, same)


@pytest.mark.parametrize("evicts", [False, True])
@pytest.mark.parametrize("blend", ["size", "mean", "weight"])
def test_a_group_has_the_mean_norm_of_its_members_and_the_direction_of_their_mean(blend, evicts):
    plan, x, state, plain, tokens, (after, same) = restored(blend, evicts=evicts)
    weight = {"size": state.size, "mean": torch.ones(2, 8), "weight": plan.weight}[blend]
    norms, slots = x[:, 1:].norm(dim=-1), plan.slots()
    for image in range(2):
        for slot in range(5):
            group = slots[image] == slot
            share = weight[image][group] / weight[image][group].sum()
            token, mean = tokens[image, 1 + slot], plain[image, 1 + slot]
            torch.testing.assert_close(token.norm(), (share * norms[image][group]).sum())
            torch.testing.assert_close(token / token.norm(), mean / mean.norm())
            assert int(group.sum()) > 1 or torch.equal(token, mean)  # nothing joined it: the very same numbers
    assert torch.equal(tokens[:, :1], x[:, :1])
    assert torch.equal(after.size, same.size)


@pytest.mark.parametrize("blend", ["mlerp", "mlerp_dst", "max"])
def test_blends_that_are_no_mean_keep_their_own_rule(blend):
    *_, plain, tokens, _ = restored(blend)
    assert torch.equal(plain, tokens)


def test_zeros_stay_zero_and_a_gradient_goes_through():
    plan, x, state = scene(1, True, False)
    plan = replace(plan, restore_norm=True)
    assert torch.equal(execute(plan, torch.zeros_like(x), state)[0], torch.zeros(2, 6, 16))
    x = x.double().requires_grad_()
    assert torch.autograd.gradcheck(lambda tokens: execute(plan, tokens, state)[0], x)


def test_cluster_restores_and_others_do_when_they_are_asked():
    model, images = timm.create_model("test_vit").eval(), torch.randn(2, 3, 160, 160)

    def run(method: str, restore_norm: bool | None) -> torch.Tensor:
        return catis.apply(model, method, r=12, restore_norm=restore_norm)(images)

    for method, own in (("cluster", True), ("tome", False), ("pitome", False), ("mctf", False), ("catis", False)):
        assert torch.equal(run(method, None), run(method, own))
        assert not torch.equal(run(method, None), run(method, not own))
        assert catis.info(model).restore_norm is not own
    assert torch.equal(run("tofu", True), run("tofu", False))  # evicts, then MLERP


def test_it_is_kept_and_what_means_nothing_is_refused():
    assert Reduction.from_json(Reduction.of("tome", 8, restore_norm=True).to_json()).restores_norm(3)
    assert "restore_norm" not in Reduction.of("cluster", 8).to_json()
    with pytest.raises(ValueError, match="restore_norm='yes': expected True or False"):
        Reduction.of("tome", 8, restore_norm="yes")
    with pytest.raises(ValueError, match="restore_norm=True: this form of mctf merges in a way of its own"):
        Reduction.of("mctf", 2, reference=True, restore_norm=True).bound(12, 1)
