"""Whether anybody listens to a module: the question that decides what may be left out of a forward pass."""

from __future__ import annotations

import pytest
import timm
import torch

from catis.hosts.listening import is_hooked, is_watched

HOOKS = ("register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook")


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_on_a_block_or_inside_it_is_seen_until_it_is_removed(hook: str) -> None:
    block = timm.create_model("vit_tiny_patch16_224").blocks[0]
    assert not is_watched(block)
    for name in ("", "norm1", "attn", "attn.proj", "mlp.fc2"):
        handle = getattr(block.get_submodule(name), hook)(lambda *called: None)
        assert is_watched(block)
        assert is_hooked(block) == (name == "")
        handle.remove()
    assert not is_watched(block)


def test_a_global_hook_is_seen() -> None:
    block = timm.create_model("vit_tiny_patch16_224").blocks[0]
    handle = torch.nn.modules.module.register_module_forward_hook(lambda *called: None)
    try:
        assert is_watched(block)
        assert is_hooked(block)
    finally:
        handle.remove()
    assert not is_watched(block)
