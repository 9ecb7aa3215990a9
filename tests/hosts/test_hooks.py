"""Hooks fire under reduction, with the tokens that are there, in both libraries; what cannot be told is an error."""

from __future__ import annotations

from typing import Any

import pytest
import timm
import torch
from timm.models._features import FeatureHookNet
from torch import Tensor, nn

import catis
from catis import hosts
from tests.hosts.families import build as build_timm
from tests.hosts.hf_models import BUILDERS, build, inputs_for

R = 3


def tokens_of(given: Any) -> Tensor:
    """The tokens in whatever a hook was told."""
    if isinstance(given, Tensor):
        return given
    return tokens_of(next(iter(given.values())) if hasattr(given, "values") else given[0])


def listen(module: nn.Module, heard: list[tuple[str, tuple[int, ...]]], name: str) -> None:
    module.register_forward_pre_hook(
        lambda _, args, kwargs: heard.append((f"> {name}", tuple(tokens_of(args or kwargs).shape))), with_kwargs=True
    )
    module.register_forward_hook(lambda _, args, output: heard.append((f"< {name}", tuple(tokens_of(output).shape))))


def attention_of(block: nn.Module) -> nn.Module:
    return next(child for name, child in block.named_children() if name in ("attn", "attention", "self_attn"))


def check_blocks(model: nn.Module, vit: nn.Module, blocks: Any, run: Any) -> None:
    """Listen to every block, its attention and the module around the blocks; compare with the trace."""
    expected = run()
    heard: list[tuple[str, tuple[int, ...]]] = []
    for index, block in enumerate(blocks):
        listen(block, heard, f"block {index}")
        listen(attention_of(block), heard, f"attention {index}")
    found = run()
    assert torch.equal(found, expected)
    handle = hosts.find(model)
    prefix = handle.facts.num_prefix
    counts = [heard[0][1][1]]
    for _ in blocks:
        counts.append(counts[-1] - min(R, (counts[-1] - prefix) // 2))
    batch, _, width = heard[0][1]
    sequence = []
    for index in range(len(blocks)):
        enters, leaves = (batch, counts[index], width), (batch, counts[index + 1], width)
        sequence += [(f"> block {index}", enters), (f"> attention {index}", enters)]
        sequence += [(f"< attention {index}", enters), (f"< block {index}", leaves)]
    assert heard == sequence


@pytest.mark.parametrize("method", ["tome", "catis", "mctf"])
@pytest.mark.parametrize("family", ["vit", "dinov3"])
@torch.no_grad()
def test_timm_blocks_and_attention_tell_what_they_see(family: str, method: str) -> None:
    model = catis.apply(build_timm(family), method, r=R)
    images = torch.randn(hosts.find(model).example_shape(2))
    check_blocks(model, model, model.blocks, lambda: model(images))


@pytest.mark.parametrize("name", [name for name in BUILDERS if name.endswith("Model")])
@torch.no_grad()
def test_transformers_blocks_and_attention_tell_what_they_see(name: str) -> None:
    model = catis.apply(build(name), "catis", r=R)
    handle, inputs = hosts.find(model), inputs_for(model)
    blocks = handle.family.blocks_of(handle.vit)
    check_blocks(model, handle.vit, blocks, lambda: tokens_of(model(**inputs)))


@torch.no_grad()
def test_a_hook_may_change_what_it_is_told() -> None:
    model = catis.apply(build_timm("vit"), "tome", r=R)
    images = torch.randn(hosts.find(model).example_shape(2))
    plain = model(images)
    places = {
        "pre": lambda m: m.register_forward_pre_hook(lambda _, args: (args[0] * 2,)),
        "post": lambda m: m.register_forward_hook(lambda _, args, output: output * 2),
    }
    changed = []
    for module in (model.blocks, model.blocks[1], model.blocks[1].attn):
        for register in places.values():
            hook = register(module)
            changed.append(model(images))
            hook.remove()
    assert not any(torch.equal(one, plain) for one in changed)
    assert len({tuple(one[0].tolist()) for one in changed}) == len(changed)
    assert torch.equal(model(images), plain)


def test_a_hook_that_drops_tokens_is_an_error() -> None:
    model = catis.apply(build_timm("vit"), "tome", r=R)
    model.blocks[1].register_forward_hook(lambda _, args, output: output[:, :5])
    with pytest.raises(ValueError, match=r"a hook on a Block returned .*not the number of tokens"):
        model(torch.randn(hosts.find(model).example_shape(1)))


def test_a_backward_hook_on_a_block_is_an_error_and_inside_it_works() -> None:
    model = catis.apply(build_timm("vit"), "tome", r=R)
    images = torch.randn(hosts.find(model).example_shape(1))
    seen = []
    model.blocks[1].norm1.register_full_backward_hook(lambda *told: seen.append(told[2][0].shape))
    model(images).sum().backward()
    assert len(seen) == 1
    model.blocks[1].register_full_backward_hook(lambda *told: None)
    with pytest.raises(ValueError, match=r"backward hook listens to a Block.*output.register_hook"):
        model(images)
    with torch.no_grad():
        model(images)


@torch.no_grad()
def test_timms_feature_hook_net_gets_its_tensors() -> None:
    model = build_timm("vit").eval()
    model.feature_info = [
        {"module": f"blocks.{index}", "num_chs": model.embed_dim, "reduction": 16, "hook_type": kind}
        for index, kind in ((0, "forward"), (2, "forward_pre"))
    ]
    net = FeatureHookNet(model, out_indices=(0, 1), no_rewrite=True, output_fmt="NLC").eval()
    images = torch.randn(hosts.find(model).example_shape(2))
    vanilla = net(images)
    catis.apply(net, "tome", r=R)
    reduced = net(images)
    assert [one.shape[1] for one in reduced] == [vanilla[0].shape[1] - R, vanilla[1].shape[1] - 2 * R]


def test_symbolic_tracing_is_a_clear_error() -> None:
    model = catis.apply(build_timm("vit").eval(), "tome", r=R)
    with pytest.raises(ValueError, match=r"symbolic trac.*hook"):
        timm.layers._fx.create_feature_extractor(model, ["blocks.1"])


@torch.no_grad()
def test_transformers_own_recorders_stay_apart_from_the_towers_blocks() -> None:
    """The model around asks for its own hidden states; those of the tower must not slip in."""
    model = build("CLIPModel")
    inputs = inputs_for(model)
    handle = hosts.find(model)
    handle.vit(inputs["pixel_values"], output_hidden_states=True)  # transformers puts its hooks on the blocks here
    catis.apply(model, "tome", r=R)
    states = model(**inputs, output_hidden_states=True)
    assert len(states.text_model_output.hidden_states) == 3
    assert len(states.vision_model_output.hidden_states) == 5


@torch.no_grad()
def test_what_has_nothing_to_tell_is_refused() -> None:
    model = catis.apply(build("VideoMAEModel"), "tome", r=R)
    model.encoder.layer[0].attention.attention.register_forward_hook(lambda *told: None)
    with pytest.raises(ValueError, match=r"VideoMAESelfAttention.*the attention module around it"):
        model(**inputs_for(model))


@torch.no_grad()
def test_the_module_around_the_blocks_and_the_probe_are_heard() -> None:
    model = catis.apply(build("SiglipVisionModel"), "tome", r=R)
    heard: list[tuple[str, tuple[int, ...]]] = []
    listen(model.encoder, heard, "encoder")
    listen(model.head, heard, "head")
    model(**inputs_for(model))
    assert heard == [
        ("> encoder", (2, 16, 32)),
        ("< encoder", (2, 4, 32)),
        ("> head", (2, 4, 32)),
        ("< head", (2, 32)),
    ]


@torch.no_grad()
def graph_of(model: Any, images: Tensor) -> str:
    """The operations of a model that is compiled whole; `fullgraph` raises at a break."""
    codes: list[str] = []

    def backend(graph: torch.fx.GraphModule, example: list[Tensor]) -> Any:
        codes.append(graph.code)
        return graph.forward

    torch._dynamo.reset()
    torch.compile(model, fullgraph=True, backend=backend)(images)
    assert len(codes) == 1
    return codes[0]


@pytest.mark.parametrize("family", ["vit", "ViTModel"])
def test_the_graph_of_a_model_that_nobody_listens_to_has_nothing_for_hooks(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the one that would be made if catis knew of no hooks at all."""
    model = build(family) if family in BUILDERS else build_timm(family)
    catis.apply(model.eval(), "catis", r=R)
    images = (
        inputs_for(model)["pixel_values"] if family in BUILDERS else torch.randn(hosts.find(model).example_shape(1))
    )
    graph = graph_of(model, images)
    with monkeypatch.context() as patched:
        for name in ("catis.hosts.hooks.is_hooked", "catis.hosts.hooks.has_hooks", "catis.hosts.timm_parts.is_hooked"):
            patched.setattr(name, lambda module: False)
        assert graph_of(model, images) == graph
    hook = model.get_submodule("blocks.1" if hasattr(model, "blocks") else "layers.1").register_forward_hook(
        lambda _, args, output: output * 2
    )
    assert graph_of(model, images) != graph
    hook.remove()
    assert graph_of(model, images) == graph


@torch.no_grad()
def test_a_hook_is_called_by_a_compiled_model() -> None:
    model = catis.apply(build_timm("vit").eval(), "tome", r=R)
    images = torch.randn(hosts.find(model).example_shape(1))
    expected = model(images)
    seen: list[tuple[int, ...]] = []
    model.blocks[0].register_forward_hook(lambda _, args, output: seen.append(tuple(output.shape)))
    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(model, backend="eager")(images), expected)
    assert len(seen) == 1
