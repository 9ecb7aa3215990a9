"""Calls the hooks of a module that catis takes apart.

The blocks, their attention and the list around them are not called under reduction: their parts are. Whoever has put a
forward or pre-forward hook on one of them is called all the same, with the tokens that are there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module

from catis.core.block import BlockRunner, BlockStep, Course
from catis.core.parts import BlockParts, Projection
from catis.core.state import TokenState
from catis.hosts.listening import forward_hooks, has_hooks, is_hooked


class Convention(NamedTuple):
    """How a library calls a module, so that a hook finds its tokens where it looks for them."""

    keyword: str | None = None  # name under which the tokens are passed; None for the first positional argument
    pack: Callable[[Tensor], Any] = lambda tokens: tokens  # makes of the tokens what the module returns
    unpack: Callable[[Any], Tensor] = lambda output: output  # its inverse


PLAIN = Convention()


def call(module: nn.Module, run: Callable[[Tensor], Tensor], x: Tensor, convention: Convention = PLAIN) -> Tensor:
    """`run(x)` in place of the module's forward, with its hooks before and after.

    Example:
        >>> layer = nn.Linear(2, 2)
        >>> hook = layer.register_forward_hook(lambda module, inputs, output: output + 1)
        >>> call(layer, lambda x: 2 * x, torch.ones(1, 2)).tolist()
        [[3.0, 3.0]]
    """
    if not is_hooked(module):
        return run(x)
    x = _before(module, x, convention)
    return _after(module, x, run(x), convention)


def around_blocks(
    blocks: Sequence[nn.Module] | nn.ModuleList, convention: Convention = PLAIN
) -> Callable[[BlockRunner], BlockRunner] | None:
    """What lets the listeners of some blocks hear of them, for `run_blocks`; None if nobody listens."""
    if not any(is_hooked(block) for block in blocks):
        return None

    def around(run: BlockRunner) -> BlockRunner:
        def heard(parts: BlockParts, x: Tensor, state: TokenState, course: Course, index: int) -> BlockStep:
            block = blocks[index]
            x = _before(block, x, convention)
            step = run(parts, x, state, course, index)
            return step._replace(tokens=_after(block, x, step.tokens, convention))

        return heard

    return around


def run_heard(
    container: nn.Module | None,
    run: Callable[[Tensor], tuple[Tensor, TokenState]],
    x: Tensor,
    convention: Convention = PLAIN,
) -> tuple[Tensor, TokenState]:
    """`run(x)` in place of the forward of the module that holds the blocks, if there is one and somebody listens."""
    if container is None or not is_hooked(container):
        return run(x)
    x = _before(container, x, convention)
    tokens, state = run(x)
    return _after(container, x, tokens, convention), state


def heard_attention(parts: BlockParts, attention: nn.Module, convention: Convention = PLAIN) -> BlockParts:
    """The parts of a block; where somebody listens to its attention, Z and output are as the listeners leave them."""
    if not is_hooked(attention):
        return parts
    heard: Any = _Heard(
        norm=lambda x: _before(attention, parts.norm(x), convention),
        project=parts.project,
        mix=parts.mix,
        output=lambda heads, features: _after(attention, features, parts.output(heads, features), convention),
        add_attention=parts.add_attention,
        add_mlp=parts.add_mlp,
    )
    return heard  # type: ignore[no-any-return]


def refuse_hooks(module: nn.Module, instead: str) -> None:
    """Raise for a module that is not called under reduction and has nothing of its own to show."""
    if has_hooks(module):
        raise ValueError(
            f"somebody listens to a {type(module).__name__}, which a reduced model does not call; put the hook on "
            f"{instead}, or call catis.remove(model) first"
        )


class _Heard(NamedTuple):
    """`BlockParts` of which some are another's."""

    norm: Callable[[Tensor], Tensor]
    project: Callable[..., Projection]
    mix: Callable[[Projection, Tensor | None], Tensor]
    output: Callable[[Tensor, Tensor], Tensor]
    add_attention: Callable[[Tensor, Tensor], Tensor]
    add_mlp: Callable[[Tensor], Tensor]


def _arguments(x: Tensor, convention: Convention) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return ((x,), {}) if convention.keyword is None else ((), {convention.keyword: x})


def _before(module: nn.Module, x: Tensor, convention: Convention) -> Tensor:
    """Call the pre-forward hooks, in the order in which torch does; returns the tokens as they leave them."""
    _refuse_backward(module, x)
    args, kwargs = _arguments(x, convention)
    for key, hook in (*torch_module._global_forward_pre_hooks.items(), *module._forward_pre_hooks.items()):
        if key in module._forward_pre_hooks_with_kwargs:
            changed: Any = hook(module, args, kwargs)
            args, kwargs = (args, kwargs) if changed is None else changed
            continue
        answer: Any = hook(module, args)
        if answer is not None:
            args = answer if isinstance(answer, tuple) else (answer,)
    return _same_shape(module, x, args[0] if convention.keyword is None else kwargs[convention.keyword])


def _after(module: nn.Module, x: Tensor, tokens: Tensor, convention: Convention) -> Tensor:
    """Call the forward hooks; returns the tokens as they leave them."""
    args, kwargs = _arguments(x, convention)
    with_kwargs = {*module._forward_hooks_with_kwargs, *torch_module._global_forward_hooks_with_kwargs}
    output = convention.pack(tokens)
    for key, hook in (*torch_module._global_forward_hooks.items(), *forward_hooks(module)):
        told: Any = (module, args, kwargs, output) if key in with_kwargs else (module, args, output)
        answer: Any = hook(*told)
        output = output if answer is None else answer
    return _same_shape(module, tokens, convention.unpack(output))


def _refuse_backward(module: nn.Module, x: Tensor) -> None:
    listens = module._backward_hooks or module._backward_pre_hooks
    everywhere = torch_module._global_backward_hooks or torch_module._global_backward_pre_hooks
    if (listens or everywhere) and torch.is_grad_enabled() and x.requires_grad:
        raise ValueError(
            f"a backward hook listens to a {type(module).__name__}, which a reduced model takes apart, so torch cannot "
            "call it; put the hook on a module inside it (a norm, a linear layer), or use a forward hook that calls "
            "`output.register_hook`"
        )


def _same_shape(module: nn.Module, before: Tensor, after: Any) -> Tensor:
    if not isinstance(after, Tensor) or after.shape != before.shape:
        given = tuple(after.shape) if isinstance(after, Tensor) else type(after).__name__
        raise ValueError(
            f"a hook on a {type(module).__name__} returned {given}, expected a tensor of shape {tuple(before.shape)}: "
            "under reduction a hook may change values, not the number of tokens"
        )
    return after
