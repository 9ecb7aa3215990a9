"""The compiled functions decide and merge as PyTorch's operations do, and only on tensors that are theirs."""

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass, fields, replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from catis.core.execute import execute
from catis.core.method import Method
from catis.core.plan import Plan
from catis.core.state import TokenState
from catis.core.view import BlockView
from catis.methods.tome import ToMe
from catis.native import accelerator, library
from catis.native.accelerator import BLENDS, Compiled, accelerator_for
from catis.registry import create_method

from .compare import CHECKS
from .test_invariants import METHODS, make_view

NATIVE = Path(library.__file__).parent
CAN_BUILD = bool(shutil.which("cc")) and (Path(sysconfig.get_path("include")) / "Python.h").exists()
needs_kernels = pytest.mark.skipif(library.load() is None, reason="catis was installed without a C compiler")

shapes = st.fixed_dictionaries(
    {
        "batch": st.integers(1, 3),
        "heads": st.integers(1, 4),
        "width": st.sampled_from([3, 8, 16, 20, 64]),
        "patches": st.integers(4, 120),  # of two tokens s_nf is the same, up to rounding
        "prefix": st.sampled_from([0, 1, 2, 5]),
        "share": st.floats(0.01, 0.5),
        "block": st.sampled_from([0, 1, 2, 7, 11]),
        "sized": st.booleans(),
        "seed": st.integers(0, 2**16),
    }
)


def view_of(shape: dict) -> BlockView:
    """A block as a timm model has it: queries, keys and values interleaved in one tensor."""
    generator = torch.Generator().manual_seed(shape["seed"])
    batch, heads, width, prefix = (shape[name] for name in ("batch", "heads", "width", "prefix"))
    tokens, patches = prefix + shape["patches"], shape["patches"]
    joint = torch.randn(batch, tokens, 3, heads, width, generator=generator)
    query, key, _ = joint.permute(2, 0, 3, 1, 4).unbind(0)
    size = torch.randint(1, 6, (batch, patches), generator=generator).float() if shape["sized"] else None
    state = TokenState(prefix, size)
    return BlockView(
        block=shape["block"],
        depth=12,
        r=max(1, int(shape["share"] * patches)),
        num_prefix=prefix,
        has_cls=prefix > 0,
        features=torch.randn(batch, tokens, heads * width, generator=generator),
        residual=torch.randn(batch, tokens, heads * width, generator=generator),
        query=query,
        key=key,
        content_key=key,
        scale=width**-0.5,
        bias=state.attention_bias(torch.float32),
        size=size,
        previous_cls=torch.rand(batch, patches, generator=generator) if shape["block"] else None,
        explain=True,
    )


def in_double(view: BlockView) -> BlockView:
    names = ("features", "residual", "query", "key", "content_key", "bias", "previous_cls")
    return replace(view, **{name: _double(getattr(view, name)) for name in names})


def _double(tensor: torch.Tensor | None) -> torch.Tensor | None:
    return None if tensor is None else tensor.double()


def compiled() -> Compiled:
    ours = accelerator_for(torch.zeros(1))
    assert ours is not None
    return ours


def decided(method: Method, view: BlockView) -> Plan:
    plan = compiled().decide(method, view)
    assert plan is not None, "the compiled functions did not decide"
    return plan


NOT_COMPILED = [options for _, options in METHODS if options.keys() & {"strategy"} or options.get("signal") == "l2"]
COMPILED = [(name, options) for name, options in METHODS if options not in NOT_COMPILED and name != "cluster"]
NAMES = sorted({name for name, _ in COMPILED})
"""Methods that have compiled functions: all but cluster."""


@needs_kernels
@pytest.mark.parametrize(("name", "options"), COMPILED, ids=str)
@given(shape=shapes)
def test_decisions_are_those_of_double_precision(name, options, shape):
    """What decides is looked at in double precision; only scores within rounding may be taken in another order."""
    method, view = create_method(name, **options), view_of(shape)
    ours, exact = decided(method, view), in_double(view)
    theirs = method.plan(exact)
    assert (ours.blend, ours.all_merge, ours.keep.shape) == (theirs.blend, theirs.all_merge, theirs.keep.shape)
    for note, expected in theirs.notes.items():
        torch.testing.assert_close(ours.notes[note].double(), expected.double(), rtol=1e-4, atol=2e-5, equal_nan=True)
    for field in ("cls_attention", "weight"):
        mine, expected = getattr(ours, field), getattr(theirs, field)
        assert (mine is None) == (expected is None)
        if mine is not None:
            torch.testing.assert_close(mine.double(), expected.double(), rtol=1e-4, atol=1e-6)
    CHECKS[name](method, exact, ours)


@needs_kernels
@pytest.mark.parametrize(("name", "field"), [("mctf", "weight"), ("catis", "cls_attention")])
def test_attention_that_differs_by_hundreds_is_that_of_double_precision(name, field):
    """No float holds the exponential of such a logit: the highest of a row must be taken off first."""
    shape = {"batch": 2, "heads": 2, "width": 16, "patches": 61, "prefix": 1, "share": 0.3, "block": 7, "sized": True}
    view = view_of(shape | {"seed": 0})
    view = replace(view, scale=60 * view.scale)
    logits = view.query @ view.key.transpose(2, 3) * view.scale
    assert (logits.amax(-1) - logits.amin(-1)).amin() > 100
    ours, exact = getattr(decided(create_method(name), view), field), in_double(view)
    torch.testing.assert_close(ours.double(), getattr(create_method(name).plan(exact), field), rtol=1e-3, atol=1e-6)


@needs_kernels
@pytest.mark.parametrize(("name", "options"), COMPILED, ids=str)
@pytest.mark.parametrize("prefix", [0, 1])
@pytest.mark.parametrize("block", [0, 11])
def test_the_judge_accepts_what_pytorch_decides(name, options, prefix, block):
    shape = {"batch": 3, "heads": 2, "width": 16, "patches": 47, "prefix": prefix, "share": 0.4, "block": block}
    view = in_double(view_of(shape | {"sized": True, "seed": 1}))
    method = create_method(name, **options)
    plan = method.plan(view)
    CHECKS[name](method, view, plan)
    swapped = plan.removed.clone()
    swapped[:, [0, -1]] = swapped[:, [-1, 0]]
    with pytest.raises(AssertionError):
        CHECKS[name](method, view, replace(plan, removed=swapped))


@needs_kernels
@pytest.mark.parametrize(("name", "options"), COMPILED, ids=str)
@pytest.mark.parametrize("prefix", [0, 1, 2])
@pytest.mark.parametrize("block", [0, 11])
def test_ties_go_to_the_earlier_token_as_in_pytorch(name, options, prefix, block):
    """All tokens alike, so that every score of an image is the same, in any precision and order of summation."""
    method, x = create_method(name, **options), torch.ones(2, 64, 8)  # a power of two: no share of it is rounded
    view = make_view(x, 12, prefix, block, None)
    ours, theirs = decided(method, view), method.plan(view)
    for field in ("keep", "removed", "target"):
        mine, expected = getattr(ours, field), getattr(theirs, field)
        assert (mine is None and expected is None) or torch.equal(mine, expected)


@needs_kernels
@pytest.mark.parametrize("restore_norm", [False, True])
@pytest.mark.parametrize("blend", BLENDS)
@given(shape=shapes, evicted=st.sampled_from(["none", "some", "all"]))
def test_merging_is_that_of_the_executor(blend, restore_norm, shape, evicted):
    view = view_of(shape)
    generator = torch.Generator().manual_seed(shape["seed"])
    order = torch.rand(view.features.shape[0], view.num_patches, generator=generator).argsort(-1)
    removed, keep = order[:, : view.r], order[:, view.r :]
    target = torch.randint(0 if evicted == "none" else -1, keep.shape[1], removed.shape, generator=generator)
    plan = Plan(keep, removed, None if evicted == "all" else target, blend=blend, cls_attention=view.previous_cls)
    plan = replace(plan, weight=torch.rand(order.shape, generator=generator) + 0.1, restore_norm=restore_norm)
    state = TokenState(view.num_prefix, view.size)
    assert compiled().execute(plan, view.residual, state) is not None
    ours, after = execute(plan, view.residual, state, compiled())
    theirs, expected = execute(plan, view.residual, state)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=2e-6)
    for name in ("size", "cls_attention"):
        torch.testing.assert_close(getattr(after, name), getattr(expected, name), rtol=1e-5, atol=1e-7)
    assert (after.size is None) == (after.log_size is None)
    if after.size is not None:
        torch.testing.assert_close(after.attention_bias(torch.float32), expected.attention_bias(torch.float32))


@needs_kernels
@pytest.mark.parametrize("name", NAMES)
def test_threads_and_neighbours_change_nothing(name):
    shape = {"batch": 5, "heads": 3, "width": 16, "patches": 61, "prefix": 1, "share": 0.3, "block": 7, "sized": True}
    view = view_of(shape | {"seed": 3})
    plans = []
    for threads in (1, 2, 4):
        torch.set_num_threads(threads)
        plans.append(decided(create_method(name), view))
    torch.set_num_threads(1)
    assert all(torch.equal(plan.slots(), plans[0].slots()) for plan in plans)
    assert all(torch.equal(plan.notes["score"].nan_to_num(), plans[0].notes["score"].nan_to_num()) for plan in plans)
    names = ("features", "residual", "query", "key", "content_key", "bias", "size", "previous_cls")
    last = decided(create_method(name), replace(view, **{name: getattr(view, name)[-1:] for name in names}))
    assert torch.equal(last.slots(), plans[0].slots()[-1:])


@needs_kernels
def test_tokens_that_do_not_lie_in_order_are_read_right():
    """As after timm's patch embedding of a model without class token; the copy must live as long as the call."""
    state = TokenState(0)
    for tokens in range(10, 60):
        x = torch.rand(2, 24, tokens).transpose(1, 2)
        order = torch.rand(2, tokens).argsort(-1)
        plan = Plan(order[:, 4:], order[:, :4], torch.randint(0, tokens - 4, (2, 4)))
        ours, theirs = (execute(plan, given, state, compiled())[0] for given in (x, x.contiguous()))
        assert torch.equal(ours, theirs)
        wide = make_view(x, 4, 0, 3, None)
        for name in NAMES:
            plain = replace(wide, features=x.contiguous(), residual=x.contiguous())
            assert torch.equal(decided(create_method(name), wide).slots(), decided(create_method(name), plain).slots())


@needs_kernels
def test_weights_of_another_precision_are_read_right():
    plan = Plan(torch.tensor([[0, 2]]), torch.tensor([[1]]), torch.tensor([[0]]), blend="weight")
    plan = replace(plan, weight=torch.tensor([[1.0, 3.0, 1.0]], dtype=torch.float64))
    merged, _ = execute(plan, torch.tensor([[[1.0], [5.0], [9.0]]]), TokenState(0), compiled())
    assert merged.flatten().tolist() == [4.0, 9.0]


@needs_kernels
def test_only_plain_single_precision_cpu_tensors():
    x = torch.rand(2, 3)
    assert accelerator_for(x) is not None
    assert accelerator_for(x.double()) is None
    assert accelerator_for(x.bfloat16()) is None
    assert accelerator_for(x.to("meta")) is None
    assert accelerator_for(torch.nn.Parameter(x)) is None
    with FlopCounterMode(display=False):
        assert accelerator_for(x) is None
    seen = []
    torch.func.vmap(lambda row: seen.append(accelerator_for(row)) or row)(x)
    torch.func.jvp(lambda row: seen.append(accelerator_for(row)) or row, (x,), (x,))
    with torch.autograd.forward_ad.dual_level():
        seen.append(accelerator_for(x))
    assert seen == [None, None, None]


@needs_kernels
def test_a_merge_that_needs_gradients_is_left_to_pytorch():
    x = torch.rand(1, 4, 3, requires_grad=True)
    plan = Plan(torch.tensor([[0, 2]]), torch.tensor([[1]]), torch.tensor([[0]]))
    state = TokenState(1)
    merged, after = execute(plan, x, state, compiled())
    assert merged.requires_grad
    assert after.log_size is None
    with torch.no_grad():
        merged, after = execute(plan, x, state, compiled())
    assert not merged.requires_grad
    assert after.log_size is not None


@needs_kernels
@pytest.mark.parametrize(
    ("keep", "removed", "target"), [([0, 3], [1], [0]), ([0, 2], [-1], [0]), ([0, 2], [1], [2]), ([0, 2], [1], [-2])]
)
def test_a_wrong_plan_is_an_error_and_not_a_crash(keep, removed, target):
    plan = Plan(torch.tensor([keep]), torch.tensor([removed]), torch.tensor([target]))
    with pytest.raises(IndexError, match="does not exist"):
        execute(plan, torch.rand(1, 4, 3), TokenState(1), compiled())


@needs_kernels
@pytest.mark.parametrize(
    "wrong",
    [
        {"keep": torch.tensor([[0]])},
        {"keep": torch.tensor([[0, 2, 1]])},
        {"keep": torch.tensor([[0, 2], [0, 2]])},
        {"keep": torch.tensor([[0, 2]], dtype=torch.int32)},
        {"target": torch.tensor([[0, 0]])},
        {"target": torch.tensor([[0]], dtype=torch.int32)},
        {"weight": torch.ones(1, 2)},
        {"cls_attention": torch.ones(1, 4)},
    ],
    ids=str,
)
def test_a_plan_of_the_wrong_size_is_an_error_and_not_a_crash(wrong):
    plan = Plan(torch.tensor([[0, 2]]), torch.tensor([[1]]), torch.tensor([[0]]))
    with pytest.raises(IndexError, match=r"does not fit|every patch once|does not hold int64"):
        execute(replace(plan, **wrong), torch.rand(1, 4, 3), TokenState(1), compiled())


@needs_kernels
@pytest.mark.parametrize("name", NAMES)
def test_more_than_half_is_an_error_and_not_a_crash(name):
    shape = {"batch": 1, "heads": 2, "width": 8, "patches": 9, "prefix": 1, "share": 0.3, "block": 7, "sized": False}
    view = replace(view_of(shape | {"seed": 0}), r=5)
    with pytest.raises(ValueError, match="at most half"):
        decided(create_method(name), view)


@needs_kernels
def test_wrong_arguments_are_errors():
    module, key = library.load().module, torch.rand(1, 1, 5, 8)
    counts = [("keep", 3), ("removed", 1), ("target", 1)]
    indices = {name: torch.zeros(1, count, dtype=torch.int64) for name, count in counts}
    right = {"prefix": 1, "content_key": key, "score": None, **indices}
    assert module.decide_tome(1, **right) is True
    assert module.decide_tome(1, **dict(reversed(right.items()))) is True
    for arguments in ((), (1, 2), ("one",), (None,)):
        with pytest.raises(TypeError):
            module.decide_tome(*arguments, **right)
    for wrong in ({"keys": key}, {"margin": 1.0}, {"content_key": 3}, {"content_key": None}, {"keep": [0, 1, 2]}):
        with pytest.raises(TypeError):
            module.decide_tome(1, **{**right, **wrong})
    for missing in ("prefix", "content_key", "keep"):
        with pytest.raises(TypeError, match=f"{missing} is missing"):
            module.decide_tome(1, **{name: value for name, value in right.items() if name != missing})
    for wrong in ({"prefix": 1.5}, {"prefix": key}):
        with pytest.raises(TypeError):
            module.decide_tome(1, **{**right, **wrong})
    shared = {"score": key.view(-1)[:4].view(1, 4)}, {"target": indices["removed"]}
    for wrong in ({"prefix": -1}, {"prefix": 5}, {"prefix": 2}, {"keep": indices["removed"]}, *shared):
        with pytest.raises((ValueError, IndexError)):
            module.decide_tome(1, **{**right, **wrong})
    for prefix in (-1, 5, 6):  # of five tokens: none is left to choose from
        with pytest.raises(ValueError, match="the prefix is longer than the sequence"):
            module.decide_tome(1, **right | {"prefix": prefix})
    with pytest.raises(ValueError, match="score shares memory with content_key"):
        module.decide_tome(1, **right | shared[0])
    for keep in (indices["keep"].repeat(1, 2)[:, ::2], indices["removed"].expand(1, 3)):
        with pytest.raises(ValueError, match=r"keep has the strides .*: its numbers do not lie one after the other"):
            module.decide_tome(1, **right | {"keep": keep})


@dataclass(frozen=True)
class Gained(ToMe):
    """ToMe with an option that C has no code for."""

    gain: float = 1.0


@dataclass
class WiderView(BlockView):
    temperature: float = 1.0


@dataclass
class WiderPlan(Plan):
    residue: torch.Tensor | None = None


@needs_kernels
def test_what_c_was_never_taught_is_left_to_pytorch(monkeypatch):
    """A new method, option, field or form of a tensor is PyTorch's until somebody writes C for it."""
    shape = {"batch": 2, "heads": 2, "width": 8, "patches": 12, "prefix": 1, "share": 0.3, "block": 7, "sized": True}
    view = view_of(shape | {"seed": 0})
    assert compiled().decide(Gained(), view) is None, "a subclass may decide otherwise"
    tome = accelerator._TAUGHT[ToMe]
    assert ToMe in accelerator._deciders({ToMe: tome})
    assert Gained not in accelerator._deciders({Gained: tome}), "an option that nobody taught it"

    values = {field.name: getattr(view, field.name) for field in fields(view)}
    assert compiled().decide(ToMe(), WiderView(**values)) is None
    for kind, wider in ((BlockView, WiderView), (Plan, WiderPlan)):  # as if the record itself had got a field
        monkeypatch.setitem(accelerator._NEWS, wider, accelerator._news(wider, accelerator._SEEN[kind]))
    assert compiled().decide(ToMe(), WiderView(**values)) is not None, "the default says nothing"
    assert compiled().decide(ToMe(), WiderView(**values, temperature=2.0)) is None
    state, plan = TokenState(1, view.size), decided(ToMe(), view)
    values = {field.name: getattr(plan, field.name) for field in fields(plan)}
    assert compiled().execute(WiderPlan(**values), view.residual, state) is not None
    assert compiled().execute(WiderPlan(**values, residue=view.residual), view.residual, state) is None
    for blend in ("max", "mlerp_dst", "median"):
        assert compiled().execute(replace(plan, blend=blend), view.residual, state) is None


@needs_kernels
@pytest.mark.parametrize("name", ["mctf", "catis"])
def test_a_bias_of_another_form_is_left_to_pytorch(name):
    shape = {"batch": 2, "heads": 2, "width": 8, "patches": 12, "prefix": 1, "share": 0.3, "block": 7, "sized": True}
    view = view_of(shape | {"seed": 0})
    assert compiled().decide(create_method(name), view) is not None
    for bias in (view.bias.expand(2, 2, 1, 13), view.bias.expand(2, 1, 13, 13), view.bias[0, 0, 0]):
        assert compiled().decide(create_method(name), replace(view, bias=bias)) is None


def test_c_knows_every_option_and_field_that_there_is():
    """Falls when one is added: write C for it and name it there, or say here that PyTorch has it."""
    for method, (_, known) in accelerator._TAUGHT.items():
        assert {option.name for option in fields(method)} == known, method
    for kind, known in accelerator._SEEN.items():
        assert {field.name for field in fields(kind)} == known, kind


@pytest.mark.skipif(not CAN_BUILD, reason="no C compiler or no Python.h")
def test_where_there_is_a_compiler_the_functions_are_there():
    assert library.load() is not None
    assert library.describe() == "compiled code"


def test_they_can_be_switched_off():
    code = "from catis.native.library import describe; print(describe())"
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {library.SWITCH: "0"}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "PyTorch"


def test_a_broken_file_is_an_error_that_helps(monkeypatch):
    def refuse(name: str) -> None:
        raise ImportError("wrong ELF class")

    library.load.cache_clear()
    monkeypatch.setattr(library, "find_spec", lambda name: object())
    monkeypatch.setattr(library.importlib, "import_module", refuse)
    try:
        with pytest.raises(RuntimeError, match=r"wrong ELF class.*install catis again.*CATIS_NATIVE=0"):
            library.load()
    finally:
        library.load.cache_clear()


def _build_script():
    path = Path(__file__).parents[2] / "hatch_build.py"
    spec = importlib.util.spec_from_file_location("hatch_build", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(not CAN_BUILD, reason="no C compiler or no Python.h")
def test_the_sources_build_without_a_warning(tmp_path, monkeypatch):
    script = _build_script()
    monkeypatch.setattr(script, "FLAGS", [*script.FLAGS, "-Wall", "-Wextra", "-Werror"])
    assert script.build(NATIVE, tmp_path / script.PRODUCT) == ""
    assert (tmp_path / script.PRODUCT).stat().st_size > 10_000


def test_a_build_that_cannot_be_done_says_why(tmp_path, monkeypatch):
    script = _build_script()
    monkeypatch.setenv("CC", "no-such-compiler")
    assert "no C compiler" in script.build(NATIVE, tmp_path / script.PRODUCT)
    if not CAN_BUILD:
        return
    monkeypatch.delenv("CC")
    (tmp_path / "bad.c").write_text("int x = ;")
    assert "bad.c" in script.build(tmp_path, tmp_path / script.PRODUCT)
