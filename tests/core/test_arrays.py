"""NumPy and PyTorch decide alike: the same plan from the same lines, whichever library runs them."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given

import catis.core.arrays as arrays
from catis.core.execute import execute
from catis.core.schedule import budget
from catis.core.state import TokenState
from catis.registry import create_method

from .test_invariants import IDS, METHODS, features, make_view, scenes


@pytest.mark.parametrize(("name", "options"), METHODS, ids=IDS)
@given(scene=scenes)
def test_both_libraries_give_the_same_plan_and_merge(name, options, scene):
    method = create_method(name, **options)
    prefix, patches, batch = scene["prefix"], scene["patches"], scene["batch"]
    x = features("normal", batch, prefix + patches, scene["seed"], torch.float64)
    view = make_view(x, budget(scene["r"], patches), prefix, scene["layer"], None)
    state = replace(TokenState.start(prefix, patches, batch), size=torch.rand(batch, patches).mul(5).ceil())
    results = []
    for library in (arrays.NumpyArrays, arrays.TorchArrays):
        with pytest.MonkeyPatch.context() as patch:
            _use(patch, library)
            plan = method.plan(view)
            results.append((plan, *execute(plan, x, state)))
    (numpy_plan, numpy_x, numpy_state), (torch_plan, torch_x, torch_state) = results
    assert torch.equal(numpy_plan.keep, torch_plan.keep)
    assert torch.equal(numpy_plan.removed, torch_plan.removed)
    assert torch.equal(numpy_plan.slots(), torch_plan.slots())
    torch.testing.assert_close(numpy_x, torch_x, rtol=1e-12, atol=1e-12)
    assert torch.equal(numpy_state.size, torch_state.size)


def _use(patch: pytest.MonkeyPatch, library: type) -> None:
    """Every module that chooses a library chooses this one."""
    import catis.core.execute
    import catis.core.rows
    import catis.core.signals
    import catis.core.view
    import catis.methods.catis
    import catis.methods.mctf
    import catis.methods.pitome
    import catis.methods.tome

    modules = (
        catis.core.execute,
        catis.core.rows,
        catis.core.signals,
        catis.core.view,
        catis.methods.catis,
        catis.methods.mctf,
        catis.methods.pitome,
        catis.methods.tome,
    )
    for module in modules:
        patch.setattr(module, "arrays_for", lambda tensor: library)


def test_plain_cpu_tensors_go_to_numpy_and_others_do_not():
    assert arrays.arrays_for(torch.zeros(1)) is arrays.NumpyArrays
    assert arrays.arrays_for(torch.zeros(1, device="meta")) is arrays.TorchArrays
    assert arrays.arrays_for(torch.nn.Parameter(torch.zeros(1))) is arrays.TorchArrays
