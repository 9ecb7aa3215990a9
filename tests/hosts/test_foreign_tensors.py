"""Tensors that are not plain CPU memory: other default devices, subclasses, DTensor, torch.func; and gradients."""

import copy

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.func import functional_call, grad, stack_module_state, vmap
from torch.testing._internal.two_tensor import TwoTensor  # a wrapper subclass with a dispatch of its own

import catis

from .families import build, images

METHODS = ["tome", "tofu", "pitome", "mctf", "catis", "cluster"]
pytestmark = pytest.mark.filterwarnings("ignore:There is a performance drop")  # PyTorch's attention under vmap
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


class PlainSubclass(torch.Tensor):
    """Behaves as a tensor does."""


@pytest.fixture(params=METHODS)
def case(request):
    """A small reduced model, its images, and what it says of them."""
    model = catis.apply(build("vit", depth=3), request.param, r=3)
    x = images(model)
    with torch.no_grad():
        return model, x, model(x)


def test_another_default_device_changes_nothing(case):
    """The compiled functions once allocated their outputs there, and the process crashed."""
    model, x, expected = case
    with torch.no_grad(), torch.device("meta"):
        assert torch.equal(model(x), expected)
    torch.set_default_device("meta")
    try:
        with torch.no_grad():
            assert torch.equal(model(x), expected)
    finally:
        torch.set_default_device(None)


def test_subclasses_of_tensor(case):
    model, x, expected = case
    with torch.no_grad():
        plain = model(x.as_subclass(PlainSubclass))
        assert type(plain) is PlainSubclass
        torch.testing.assert_close(plain.as_subclass(torch.Tensor), expected, **CLOSE)
        wrapped = model(TwoTensor(x, x))
        assert type(wrapped) is TwoTensor
        torch.testing.assert_close(wrapped.a, expected, **CLOSE)


@pytest.fixture
def mesh():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,))
    dist.destroy_process_group()


def test_queries_and_keys_that_are_spread_over_processes(case, mesh):
    """DTensor q, k and v beside plain tokens, as tensor parallelism makes them."""
    model, x, expected = case
    spread, back = ColwiseParallel(output_layouts=Replicate(), use_local_output=False), RowwiseParallel
    for block in model.blocks:
        parts = {"qkv": spread, "proj": back(input_layouts=Replicate())}
        parallelize_module(block.attn, mesh, parts, src_data_rank=None)
    assert type(model.blocks[0].attn.qkv.weight.data).__name__ == "DTensor"
    with torch.no_grad():
        torch.testing.assert_close(model(x), expected, **CLOSE)


def test_vmap_over_images(case):
    model, x, expected = case
    with torch.no_grad():
        torch.testing.assert_close(vmap(lambda image: model(image[None])[0])(x), expected, **CLOSE)


def test_functional_gradients_and_those_per_sample(case):
    model, x, _ = case
    parameters = {name: value.detach() for name, value in model.named_parameters()}

    def loss(values, image):
        return functional_call(model, values, (image[None],)).square().sum()

    each = vmap(grad(loss), (None, 0))(parameters, x)
    for index, image in enumerate(x):
        model.zero_grad()
        model(image[None]).square().sum().backward()
        alone = grad(loss)(parameters, image)
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(alone[name], parameter.grad, rtol=1e-3, atol=1e-4)
            torch.testing.assert_close(each[name][index], parameter.grad, rtol=1e-3, atol=1e-4)


def test_an_ensemble_of_stacked_parameters(case):
    model, x, _ = case
    members = [copy.deepcopy(model) for _ in range(2)]
    for parameter in members[1].parameters():
        parameter.data += 0.01 * torch.randn_like(parameter)
    bare = copy.deepcopy(model).to("meta")
    with torch.no_grad():
        together = vmap(lambda *state: functional_call(bare, state, (x,)))(*stack_module_state(members))
        for member, logits in zip(members, together, strict=True):
            torch.testing.assert_close(logits, member(x), **CLOSE)


def test_gradients_are_the_numerical_ones(case):
    """In double precision; MCTF's attention weights carry a gradient too."""
    model, x, _ = case
    model, x = model.double(), x.double()
    weight = model.blocks[0].attn.qkv.weight
    step = torch.zeros_like(weight)
    step.view(-1)[::37] = torch.randn(step.view(-1)[::37].shape, dtype=torch.float64)

    def loss(amount: float) -> torch.Tensor:
        changed = {"blocks.0.attn.qkv.weight": weight + amount * step}
        return functional_call(model, changed, (x,)).square().mean()

    with torch.no_grad():
        numerical = (loss(1e-6) - loss(-1e-6)) / 2e-6
    loss(0.0).backward()
    torch.testing.assert_close((weight.grad * step).sum(), numerical, rtol=1e-5, atol=0)
