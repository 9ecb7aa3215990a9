"""The forward pass of a transformers model under reduction.

Whoever only reads the tokens that come out (classifiers, decoders) is not touched: the output lies on the full grid
again.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sequence
from functools import cache, partial
from typing import Any

from torch import Tensor
from transformers.modeling_outputs import BaseModelOutput
from transformers.utils import ModelOutput

from catis.core.block import BlockRecord, Recorder
from catis.core.reduction import Reduction
from catis.hosts import tower_model
from catis.hosts.hf_families import family_of
from catis.hosts.hf_family import EVERY, Family, is_heard, run_family, shown
from catis.hosts.swap import base_class

# Arguments that describe the full sequence to the attention; once tokens merge they would silently mean something else.
_REFUSED = ("attention_mask", "is_causal", "cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k")
PREFIX_ONLY = "catis_prefix_only"
"""Keyword by which a classifier that reads prefix tokens alone says so to the model inside it."""


@cache
def forward_like(base: Any) -> Callable[..., ModelOutput]:
    """The reduced forward of a model class: (model, reduction, the arguments of its own forward)."""
    parameters = dict(list(inspect.signature(base.forward).parameters.items())[1:])
    names = tuple(parameters)
    needed = [name for name, own in parameters.items() if own.default is own.empty and own.kind is not own.VAR_KEYWORD]
    inputs = tuple(name for name in names if name not in ("attention_mask", "kwargs"))

    def forward(model: Any, reduction: Reduction, *args: Any, record: Recorder | None = None, **kwargs: Any) -> Any:
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        missing = [name for name in needed if name not in given]
        if missing:
            raise TypeError(
                f"{base.__name__} also needs {' and '.join(missing)}: pass what its processor returned, by name"
            )
        taken = {name: given.pop(name) for name in inputs if name in given}
        return run(model, reduction, taken, given, record)

    return forward


def run(
    model: Any, reduction: Reduction, inputs: dict[str, Any], flags: dict[str, Any], record: Recorder | None = None
) -> ModelOutput:
    """Forward pass of a model with reduction.

    `inputs` are what its embedding takes, `flags` all other arguments of the call.
    """
    family = family_of(type(model))
    assert family is not None
    _refuse(model, flags)
    asked = flags.pop(PREFIX_ONLY, False)
    wanted = _wanted_hidden_states(model, flags)
    if family.packed:
        return tower_model.run(model, family, reduction, inputs, flags, wanted, record)
    if family.backbone:
        flags["output_hidden_states"], wanted = flags.get("output_hidden_states"), EVERY
    x, positions, extra = family.embed(model, **inputs)
    hidden: list[Tensor | None] = [x] if wanted is EVERY else []
    prefix_only = (
        bool(asked and reduction.head_only) and wanted is None and record is None and not is_heard(model, family)
    )
    show = (lambda tokens, state: tokens) if prefix_only else partial(shown, reduction)
    watch = record if wanted is None else _collector(wanted, hidden, show, record)
    parts = [family.parts(block).heard() for block in family.blocks_of(model)]
    tokens, state = run_family(model, family, reduction, parts, x, positions, watch, prefix_only=prefix_only)
    if family.backbone:
        return _read_maps(model, family, inputs, flags, x, hidden)
    size = state.size if reduction.method.weighs_pool else None
    output = family.finish(model, tokens, size, partial(show, state=state), extra)
    if wanted is not None:
        output["hidden_states"] = tuple(hidden)
    return output


def _refuse(model: Any, flags: dict[str, Any]) -> None:
    for name in _REFUSED:
        if flags.get(name) is not None:
            raise ValueError(
                f"{name} was given, but it describes the full sequence and has no meaning once tokens merge; call "
                "catis.remove(model) first, or apply with r=0"
            )
    if flags.get("output_attentions", getattr(model.config, "output_attentions", False)):
        raise ValueError(
            "output_attentions=True: attention maps of a reduced model shrink from block to block and do not lie on "
            "the patch grid; use catis.trace for what each block did, or catis.remove(model) for the full maps"
        )


def _wanted_hidden_states(model: Any, flags: dict[str, Any]) -> Collection[int] | None:
    """Blocks whose hidden states are asked for, by argument or configuration; None for no block."""
    asked = flags.get("output_hidden_states", getattr(model.config, "output_hidden_states", False))
    if not asked:
        return None
    return asked if isinstance(asked, (list, tuple, set)) else EVERY


def _collector(
    wanted: Collection[int], hidden: list[Tensor | None], show: Callable[..., Tensor], record: Recorder | None
) -> Recorder:
    """A recorder that keeps each wanted block's output as the model shows it, then calls the one that was given."""

    def collect(block: BlockRecord) -> None:
        hidden.append(show(block.tokens, state=block.state) if block.index in wanted else None)
        if record is not None:
            record(block)

    return collect


def _read_maps(
    model: Any,
    family: Family,
    inputs: dict[str, Any],
    flags: dict[str, Any],
    embedded: Tensor,
    hidden: Sequence[Tensor | None],
) -> ModelOutput:
    """What a backbone returns: its own forward makes the maps, from full-grid hidden states that are there already.

    `embedded` (B, N, C) entered the first block; `hidden` are these, and the un-merged tokens after each block.
    """
    answer = BaseModelOutput(last_hidden_state=hidden[-1], hidden_states=tuple(hidden))
    encoder = family.blocks.partition(".")[0]
    patches = _StandIn(model.embeddings, answer=embedded)
    seen = _StandIn(model, {"embeddings": patches, encoder: lambda *args, **kwargs: answer})
    given = {name: value for name, value in flags.items() if value is not None}
    return base_class(model).forward(seen, **inputs, **given)


class _StandIn:
    """A module as its model's own forward sees it, with other answers from some of its parts, or from its own call."""

    def __init__(self, module: Any, answers: dict[str, Any] | None = None, answer: Tensor | None = None) -> None:
        self._module, self._answers, self._answer = module, answers or {}, answer

    def __getattr__(self, name: str) -> Any:
        return self._answers[name] if name in self._answers else getattr(self._module, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Tensor | None:
        return self._answer
