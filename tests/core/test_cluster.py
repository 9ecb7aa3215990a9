"""Cluster beside the same written out token by token, and what it promises that others do not."""

import numpy as np
import pytest
import torch

import catis
from catis import zoo
from catis.core.execute import execute
from catis.core.state import TokenState
from catis.methods.cluster import Cluster
from tests.core.test_invariants import features, make_view


def naive(residual: np.ndarray, weight: np.ndarray, r: int) -> tuple[set[int], dict[int, int]]:
    """Tokens that go, and the token that each joins, of one image."""
    tokens, correlation = len(weight), np.corrcoef(residual)
    costs = []
    for i in range(tokens):
        heavier = [j for j in range(tokens) if (weight[j], -j) > (weight[i], -i)]
        costs.append(
            min((1 - correlation[i, j]) / (1 / weight[i] + 1 / weight[j]) for j in heavier) if heavier else np.inf
        )
    gone = set(sorted(range(tokens), key=lambda i: (costs[i], i))[:r])
    stay = [j for j in range(tokens) if j not in gone]
    return gone, {i: max(stay, key=lambda j: correlation[i, j]) for i in gone}


@pytest.mark.parametrize("power", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_the_plan_is_what_the_text_says(seed, power):
    x = features("normal", 3, 14, seed, torch.float64)
    size = torch.randint(1, 5, (3, 13), generator=torch.Generator().manual_seed(seed)).double()
    view = make_view(x, 5, 1, 3, size)
    plan, attention = Cluster(power=power).plan(view), view.cls_attention()
    for image in range(3):
        weight = (attention[image] * size[image]).numpy() ** power
        gone, joined = naive(view.patch_residual()[image].numpy(), weight, 5)
        kept, removed = plan.keep[image].tolist(), plan.removed[image].tolist()
        assert set(removed) == gone
        assert {i: kept[at] for i, at in zip(removed, plan.target[image].tolist(), strict=True)} == joined


def test_a_group_is_the_mean_by_attention():
    view = make_view(features("normal", 2, 9, 0, torch.float64), 3, 1, 3, None)
    plan, attention = Cluster().plan(view), view.cls_attention()
    merged, _ = execute(plan, view.residual, TokenState(1))
    patches, slots = view.patch_residual(), plan.slots()
    for image, slot in ((0, 0), (1, 2)):
        group = slots[image] == slot
        share = attention[image][group] / attention[image][group].sum()
        torch.testing.assert_close(merged[image, 1 + slot], (share[:, None] * patches[image][group]).sum(0))


def test_without_a_cls_token_sizes_are_the_weights():
    x = features("normal", 2, 12, 1, torch.float64)
    view = make_view(x, 4, 0, 3, torch.ones(2, 12).double())
    plan = Cluster().plan(view)
    assert plan.blend == "size"
    assert set(plan.removed[0].tolist()) == naive(view.patch_residual()[0].numpy(), np.ones(12), 4)[0]


@pytest.mark.parametrize("patches", [9, 17, 33, 41])
def test_tokens_that_weigh_the_same_do_so_in_any_company(patches):
    """The CLS token looks at one patch alone: all others weigh nothing, wherever they lie in memory."""
    x = features("huge", 2, 1 + patches, 0)
    together, alone = (Cluster().plan(make_view(images, 4, 1, 0, None)) for images in (x, x[:1]))
    assert torch.equal(together.slots()[:1], alone.slots())


def test_a_budget_without_a_method_means_cluster_with_its_own_gain():
    model = catis.apply(zoo.load("tiny-6"), budget=0.6)
    assert (catis.info(model).method, catis.info(model).size_gain) == ("cluster", (0.2, 0.36, 0.52, 0.68, 0.84, 1.0))
    assert catis.info(catis.apply(model, "tome", budget=0.6)).size_gain == 1.0
    assert catis.info(catis.apply(model, r=3)).method == "catis"


@pytest.mark.parametrize("power", [-0.1, float("inf"), float("nan"), True])
def test_a_power_that_means_nothing_is_refused(power):
    with pytest.raises(ValueError, match="power="):
        Cluster(power=power)
