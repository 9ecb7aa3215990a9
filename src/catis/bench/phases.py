"""What reduction itself costs in one pass: choosing tokens, merging them, and what attention loses on the way.

A recorder watches a reduced model block by block and times each part again on what the block really saw, so nothing is
added to the model and only one block is held in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from catis import hosts
from catis.bench.roofline import attention_step
from catis.bench.settings import Precision
from catis.bench.timing import Step, least_seconds
from catis.core.block import BlockRecord, decide
from catis.core.execute import execute
from catis.core.method import Method
from catis.core.record import record
from catis.core.state import TokenState
from catis.core.view import BlockView
from catis.native.accelerator import Compiled, accelerator_for


@dataclass(frozen=True)
class Phases:
    """Seconds of one pass of a batch, summed over the blocks."""

    choose: float = 0.0  # scoring and matching: the method's plan
    # The part of it that goes through the whole attention map, which the fused kernel never makes.
    attention_map: float = 0.0
    merge: float = 0.0  # applying the plan
    bias: float = 0.0  # what the attention kernel takes longer because of the log-size bias
    unfused: float = 0.0  # what the model's own attention takes longer than the fused kernel; 0 if it is fused


def time_phases(
    model: nn.Module, images: Tensor, precision: Precision, *, repeats: int = 3, threads: int | None = None
) -> Phases | None:
    """Time the parts of a reduced model's pass.

    Returns:
        The sums, or None for a method that runs blocks in its own way (the authors' forms of MCTF, say), where
        choosing and attention cannot be told apart.

    Example:
        >>> import catis, timm
        >>> model = catis.apply(timm.create_model("test_vit").eval(), "mctf", r=8)
        >>> phases = time_phases(model, torch.zeros(1, 3, 160, 160), Precision(), repeats=1)
        >>> phases.choose > 0, phases.attention_map > 0, phases.unfused
        (True, True, 0.0)
    """
    handle = hosts.find(model)
    reduction = handle.reduction
    assert reduction is not None
    fused = attention_is_fused(model, images, precision)
    total, state, own_way = Phases(), None, False

    def clock(step: Step) -> float:
        def as_in_the_model() -> object:
            with torch.no_grad(), precision.autocast(images.device):
                return step()

        return least_seconds(as_in_the_model, repeats, threads)

    def record(block: BlockRecord) -> None:
        nonlocal total, state, own_way
        own_way = own_way or block.view is None
        if block.view is not None and block.plan is not None:
            parts = _block(block.view, reduction.method, state, clock, fused)
            total = Phases(*(getattr(total, part.name) + getattr(parts, part.name) for part in fields(Phases)))
        state = block.state

    with torch.no_grad(), precision.autocast(images.device):
        handle.watch(images, record)
    return None if own_way else total


def attention_is_fused(model: nn.Module, images: Tensor, precision: Precision) -> bool:
    """Whether every block's attention goes through PyTorch's fused kernel; looks at one image."""
    handle = hosts.find(model)
    counted = _Count()
    with counted, torch.no_grad(), precision.autocast(images.device):
        model(images[:1])
    return counted.calls >= handle.facts.depth


class _Count(TorchFunctionMode):
    """Counts calls of the fused attention kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: int = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls += func is F.scaled_dot_product_attention
        return func(*args, **(kwargs or {}))


@record
class _WatchedView(BlockView):
    """A view that notes whether the method asked who is attended to."""

    asked: tuple[list[bool], ...] = ()

    def attention_received(self) -> Tensor:
        self.asked[0].append(True)
        return super().attention_received()


Clock = Callable[[Step], float]
"""Seconds of a step as the model would run it."""


def _block(view: BlockView, method: Method, before: TokenState | None, clock: Clock, fused: bool) -> Phases:
    view = replace(view, explain=False)  # a watched model explains itself, a running one does not
    known = {field.name: getattr(view, field.name) for field in fields(view)}
    asked: list[bool] = []
    method.plan(_WatchedView(**known, asked=(asked,)))
    accelerator = accelerator_for(view.residual)
    chosen = decide(method, view, accelerator)
    positions = None if before is None else before.positions
    state = TokenState(view.num_prefix, view.size, view.previous_cls, positions=positions)
    attention = {
        (with_bias, kernel): clock(
            attention_step(view.query, view.key, view.key, view.bias if with_bias else None, kernel)
        )
        for with_bias, kernel in {(False, True), (view.bias is not None, True), (view.bias is not None, fused)}
    }
    unbiased, biased = attention[False, True], attention[view.bias is not None, True]
    return Phases(
        choose=clock(lambda: decide(method, view, accelerator)),
        attention_map=clock(lambda: _attention_received(view, accelerator)) if asked else 0.0,
        merge=clock(lambda: execute(chosen, view.residual, state, accelerator)),
        bias=max(0.0, biased - unbiased),
        unfused=0.0 if fused else max(0.0, attention[view.bias is not None, False] - biased),
    )


def _attention_received(view: BlockView, accelerator: Compiled | None) -> Tensor:
    received = None if accelerator is None else accelerator.attention_received(view)
    return view.attention_received() if received is None else received
