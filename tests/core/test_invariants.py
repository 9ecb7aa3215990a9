"""What must hold for every method and every input, checked with hypothesis."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import catis
from catis.core.amounts import capped
from catis.core.block import decide
from catis.core.execute import execute, unmerge, weighted_mean
from catis.core.matching import alternate
from catis.core.plan import Plan
from catis.core.state import TokenState
from catis.core.view import BlockView
from catis.native.accelerator import accelerator_for
from catis.registry import create_method

METHODS = [
    ("tome", {}),
    ("tofu", {}),
    ("pitome", {}),
    ("pitome", {"order": "mae"}),
    ("mctf", {}),
    ("mctf", {"bidirectional": False, "pooling": "size"}),
    ("catis", {}),
    ("catis", {"tau": 0.0, "evict_ratio": 0.0}),
    ("catis", {"tau": 0.0, "evict_ratio": 1.0}),
    ("catis", {"tau": 10.0}),
    ("catis", {"tau": 0.3, "l_start": 0, "gamma": 2.0, "w_cls": 1.0}),
    ("catis", {"signal": "cls", "l_start": 0}),
    ("catis", {"signal": "l2"}),
    ("catis", {"signal": "euclidean", "strategy": "global"}),
    ("catis", {"strategy": "evict"}),
    ("catis", {"strategy": "merge"}),
    ("cluster", {}),
    ("cluster", {"power": 0.0, "pooling": "size"}),
]
IDS = [f"{name}-{'-'.join(map(str, options.values()))}" for name, options in METHODS]
FILLS = ["normal", "ties", "duplicates", "zero", "constant", "one zero token", "nan image", "inf image", "huge"]


def features(fill: str, batch: int, tokens: int, seed: int, dtype=torch.float32) -> torch.Tensor:
    """(B, N, 8) tokens of a nasty kind; NaN and inf are in the last image only."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(batch, tokens, 8, generator=generator, dtype=torch.float64)
    if fill == "ties":
        x = x.sign()
    elif fill == "duplicates":
        x = x[:, torch.randint(0, max(1, tokens // 3), (tokens,), generator=generator)]
    elif fill == "zero":
        x = torch.zeros_like(x)
    elif fill == "constant":
        x = torch.full_like(x, 0.1)
    elif fill == "one zero token":
        x[:, tokens // 2] = 0
    elif fill == "nan image":
        x[-1] = float("nan")
    elif fill == "inf image":
        x[-1, ::2] = float("inf")
    elif fill == "huge":
        x = x * 1e6
    return x.to(dtype)


def make_view(x: torch.Tensor, r: int, prefix: int, block: int, size: torch.Tensor | None) -> BlockView:
    """A block of two heads whose keys are slices of the features; it asks for notes."""
    heads = x.unflatten(-1, (2, x.shape[-1] // 2)).transpose(1, 2)
    previous = None
    if block > 0 and prefix:
        previous = torch.softmax(x[:, prefix:, 0].nan_to_num(0.0, 0.0, 0.0).float(), -1).to(x.dtype)
    return BlockView(
        block=block,
        depth=12,
        r=r,
        num_prefix=prefix,
        has_cls=prefix > 0,
        features=x,
        residual=x,
        query=heads,
        key=heads,
        content_key=heads,
        scale=0.5,
        size=size,
        previous_cls=previous,
        explain=True,
    )


scenes = st.fixed_dictionaries(
    {
        "fill": st.sampled_from(FILLS),
        "batch": st.integers(1, 4),
        "patches": st.integers(2, 33),
        "r": st.integers(1, 40),
        "prefix": st.sampled_from([0, 1, 2, 5]),
        "block": st.sampled_from([0, 1, 2, 7, 11]),
        "sized": st.booleans(),
        "compiled": st.booleans(),
        "seed": st.integers(0, 2**16),
    }
)


def run(method, scene, dtype=torch.float32):
    """Plan and execute one block; returns everything needed to judge it."""
    prefix, patches = scene["prefix"], scene["patches"]
    x = features(scene["fill"], scene["batch"], prefix + patches, scene["seed"], dtype)
    generator = torch.Generator().manual_seed(scene["seed"] + 1)
    size = torch.randint(1, 6, (scene["batch"], patches), generator=generator).float() if scene["sized"] else None
    r = capped(scene["r"], patches)
    accelerator = accelerator_for(x) if scene["compiled"] else None
    plan = decide(method, make_view(x, r, prefix, scene["block"], size), accelerator)
    state = TokenState.start(prefix, patches, scene["batch"], track=True)
    return x, size, r, plan, *execute(plan, x, replace(state, size=size), accelerator)


@pytest.mark.parametrize(("name", "options"), METHODS, ids=IDS)
@given(scene=scenes)
def test_budget_partition_and_sizes(name, options, scene):
    x, size, r, plan, merged, state = run(create_method(name, **options), scene)
    patches, prefix = scene["patches"], scene["prefix"]
    assert merged.shape == (x.shape[0], x.shape[1] - r, x.shape[2])
    together = torch.cat([plan.keep, plan.removed], 1).sort(-1).values
    assert torch.equal(together, torch.arange(patches).expand_as(together))
    finite = x.isfinite().flatten(1).all(1)
    assert torch.equal(merged[finite, :prefix], x[finite, :prefix])
    slots = plan.slots()
    assert int(slots.max()) < plan.num_kept
    assert int(slots.min()) >= -1
    before = torch.ones(x.shape[0], patches) if size is None else size
    held = torch.zeros(x.shape[0], plan.num_kept).scatter_add(1, slots.clamp_min(0), before * (slots >= 0))
    after = torch.ones_like(held) if state.size is None else state.size
    assert torch.equal(after, held)
    assert torch.equal(after.sum(-1) + (before * (slots < 0)).sum(-1), before.sum(-1))
    assert torch.equal(state.provenance, slots)


@pytest.mark.parametrize(("name", "options"), METHODS, ids=IDS)
@given(scene=scenes)
def test_no_nan_is_created_and_a_nan_image_stays_alone(name, options, scene):
    _, _, _, plan, merged, _ = run(create_method(name, **options), scene)
    good = merged[:-1] if scene["fill"] in ("nan image", "inf image") else merged
    assert bool(good.isfinite().all())
    notes = {note: values[: len(good)] for note, values in plan.notes.items()}
    assert set(notes) >= {"score", "threshold"}
    if name in ("tome", "tofu"):  # tokens of side B have no score
        side_a, side_b = alternate(scene["prefix"])
        assert bool(notes["score"][:, side_b].isnan().all())
        notes["score"] = notes["score"][:, side_a]
    for note, values in notes.items():
        assert bool(values.isfinite().all()), note


@pytest.mark.parametrize(("name", "options"), METHODS, ids=IDS)
@given(scene=scenes)
def test_an_image_does_not_depend_on_its_neighbours(name, options, scene):
    method = create_method(name, **options)
    prefix, patches = scene["prefix"], scene["patches"]
    x = features(scene["fill"], scene["batch"], prefix + patches, scene["seed"])
    r = capped(scene["r"], patches)

    def plan(images: torch.Tensor) -> Plan:
        accelerator = accelerator_for(images) if scene["compiled"] else None
        return decide(method, make_view(images, r, prefix, scene["block"], None), accelerator)

    together, alone = plan(x), plan(x[:1])
    assert torch.equal(together.keep[:1], alone.keep)
    assert torch.equal(together.slots()[:1], alone.slots())


PURE = [("tome", {}), ("pitome", {}), ("catis", {"evict_ratio": 0.0, "tau": 1e6})]


@pytest.mark.parametrize(("name", "options"), PURE)
@given(scene=scenes)
def test_pure_merging_preserves_the_size_weighted_mean(name, options, scene):
    x, size, _, plan, merged, state = run(create_method(name, **options), scene | {"fill": "normal"}, torch.float64)
    assert (plan.slots() >= 0).all()
    prefix = scene["prefix"]
    torch.testing.assert_close(weighted_mean(merged[:, prefix:], state.size), weighted_mean(x[:, prefix:], size))


def test_gradcheck_of_the_merge():
    x = torch.randn(2, 9, 3, dtype=torch.float64, requires_grad=True)
    for name in ("tome", "pitome", "catis", "mctf", "cluster"):
        plan = create_method(name).plan(make_view(features("normal", 2, 9, 3, torch.float64), 3, 1, 2, None))
        assert torch.autograd.gradcheck(lambda tokens, plan=plan: execute(plan, tokens, TokenState(1))[0], (x,))
    late = create_method("tofu").plan(make_view(features("normal", 2, 9, 3, torch.float64), 3, 1, 11, None))
    assert late.blend == "mlerp"
    assert torch.autograd.gradcheck(lambda tokens: execute(late, tokens, TokenState(1))[0], (x,))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sizes_stay_exact_in_half_precision(dtype):
    """257 patches in one token: bfloat16 cannot count past 256."""
    x = torch.ones(1, 300, 4, dtype=dtype)
    state = TokenState(0, size=torch.full((1, 300), 1.0))
    plan = create_method("tome").plan(make_view(features("constant", 1, 300, 0), 150, 0, 0, None))
    merged, state = execute(plan, x, state)
    for _ in range(7):
        patches = merged.shape[1]
        plan = create_method("tome").plan(make_view(features("constant", 1, patches, 0), patches // 2, 0, 0, None))
        merged, state = execute(plan, merged, state)
    assert state.size.dtype == torch.float32
    assert state.size.sum() == 300
    assert merged.dtype == dtype
    assert torch.equal(merged, torch.ones_like(merged))


def test_unmerge_is_constant_on_groups_and_exact_elsewhere():
    x = torch.randn(2, 13, 5, dtype=torch.float64)
    plan = create_method("catis", tau=0.3).plan(make_view(features("normal", 2, 13, 1, torch.float64), 5, 1, 3, None))
    merged, state = execute(plan, x, TokenState.start(1, 12, 2, track=True))
    full = unmerge(merged, state)
    assert full.shape == x.shape
    groups = state.size[torch.arange(2)[:, None], state.provenance.clamp_min(0)]
    alone = (state.provenance >= 0) & (groups == 1)
    assert torch.equal(full[:, 1:][alone], x[:, 1:][alone])
    fill = weighted_mean(merged[:, 1:], state.size)
    gone = state.provenance < 0
    assert gone.any()
    assert torch.equal(full[:, 1:][gone], fill[:, None].expand(-1, 12, -1)[gone])


def test_every_registered_method_is_covered():
    assert {name for name, _ in METHODS} == set(catis.list_methods())
