"""The read-out of a backbone: its own forward makes the maps, from hidden states that are there already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor
from transformers.modeling_outputs import BaseModelOutput
from transformers.utils import ModelOutput

from catis.hosts.hf_family import Family
from catis.hosts.swap import base_class


class _StandIn:
    """A model as its own forward sees it, with other answers from its embedding and its encoder."""

    def __init__(self, model: Any, answers: dict[str, Any]) -> None:
        self._model, self._answers = model, answers

    def __getattr__(self, name: str) -> Any:
        return self._answers[name] if name in self._answers else getattr(self._model, name)


def read_maps(
    model: Any,
    family: Family,
    inputs: dict[str, Any],
    flags: dict[str, Any],
    embedded: Tensor,
    hidden: Sequence[Tensor | None],
) -> ModelOutput:
    """What the backbone returns for these full-grid hidden states.

    Args:
        model: The backbone.
        family: Its family.
        inputs: What its embedding took, by name.
        flags: The other arguments of the call.
        embedded: (B, N, C) tokens that entered the first block.
        hidden: These, and the un-merged tokens after each block.
    """
    answer = BaseModelOutput(last_hidden_state=hidden[-1], hidden_states=tuple(hidden))
    encoder = family.blocks.partition(".")[0]
    patches = _Embedding(model.embeddings, embedded)
    seen = _StandIn(model, {"embeddings": patches, encoder: lambda *args, **kwargs: answer})
    given = {name: value for name, value in flags.items() if value is not None}
    return base_class(model).forward(seen, **inputs, **given)


class _Embedding(_StandIn):
    """The embedding of a model, whose answer is there already; everything else of it is the model's."""

    def __init__(self, embedding: Any, tokens: Tensor) -> None:
        super().__init__(embedding, {})
        self._tokens = tokens

    def __call__(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._tokens
