"""The compiled functions on tensors: what C needs to know of them, and room for what it gives back."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from catis.native.library import Kernels

__all__ = ["BLENDS", "Decided", "decide_catis", "decide_mctf", "decide_pitome", "decide_tome", "merge"]

BLENDS = {"size": 0, "mean": 1, "weight": 2, "mlerp": 3}
"""Blends that the compiled `merge` knows; the numbers are those of merge.c."""


class Decided(NamedTuple):
    """What happens to the patch tokens: the fields of a Plan of the same names, and the scores behind them."""

    keep: Tensor
    removed: Tensor
    target: Tensor
    scores: tuple[Any, ...]


def decide_tome(kernels: Kernels, key: Tensor, num_prefix: int, r: int, explain: bool) -> Decided:
    """ToMe's matching on (B, H, N, d) keys; the score of an A token is its best similarity, NaN for B."""
    key = _in_rows(key)
    batch, _, tokens, _ = key.shape
    keep, removed, target = _indices(batch, tokens - num_prefix, r)
    score = _numbers(batch, tokens - num_prefix) if explain else None
    kernels.module.decide_tome(
        key.data_ptr(),
        *key.stride(),
        *key.shape,
        num_prefix,
        r,
        keep.data_ptr(),
        removed.data_ptr(),
        target.data_ptr(),
        _pointer(score),
        kernels.threads(),
    )
    return Decided(keep, removed, target, (score,))


def decide_pitome(kernels: Kernels, key: Tensor, num_prefix: int, r: int, margin: float, pure: bool) -> Decided:
    """PiToMe's order and matching on (B, H, N, d) keys; the score is the energy."""
    key = _in_rows(key)
    batch, _, tokens, _ = key.shape
    keep, removed, target = _indices(batch, tokens - num_prefix, r)
    score = _numbers(batch, tokens - num_prefix)
    kernels.module.decide_pitome(
        key.data_ptr(),
        *key.stride(),
        *key.shape,
        num_prefix,
        r,
        margin,
        pure,
        keep.data_ptr(),
        removed.data_ptr(),
        target.data_ptr(),
        score.data_ptr(),
        kernels.threads(),
    )
    return Decided(keep, removed, target, (score,))


def decide_catis(
    kernels: Kernels,
    features: Tensor,
    projected: tuple[Tensor, Tensor, Tensor],
    biases: tuple[Tensor | None, Tensor | None],
    num_prefix: int,
    amounts: tuple[int, int],
    theta: tuple[float, float, float, float],
    uses: tuple[bool, bool, bool],
    explain: bool,
) -> Decided:
    """CATIS' scores and triage.

    Args:
        kernels: The compiled functions.
        features: (B, N, C) Z.
        projected: Query, key and content key, (B, H, N, d) each.
        biases: Attention bias (B, 1, 1, N) and A_cls of the block before (B, N_p); None where there is none.
        num_prefix: Prefix tokens P.
        amounts: r, and how many of them eviction may take.
        theta: Scale of the attention, gamma, w_cls, tau.
        uses: Whether A_cls is wanted, and whether s_nf and s_cls enter the score.
        explain: Whether to give the scores.

    Returns:
        The decision, with A_cls (or None), and for an explanation s_nf, s_cls and their fusion; a signal that does not
        enter is garbage.
    """
    batch, tokens, channels = features.shape
    query, key, content_key = _in_rows(projected[0]), _in_rows(projected[1]), _in_rows(projected[2])
    features, bias, previous = features.contiguous(), _floats(biases[0]), _floats(biases[1])
    keep, removed, target = _indices(batch, tokens - num_prefix, amounts[0])
    attention = _numbers(batch, tokens - num_prefix) if uses[0] else None
    norm = context = score = None
    if explain:
        norm, context, score = (_numbers(batch, tokens - num_prefix) for _ in range(3))
    kernels.module.decide_catis(
        features.data_ptr(),
        channels,
        content_key.shape[1],
        query.data_ptr(),
        *query.stride(),
        key.data_ptr(),
        *key.stride(),
        content_key.data_ptr(),
        *content_key.stride(),
        _pointer(bias),
        _pointer(previous),
        *amounts,
        uses[1],
        uses[2],
        *theta,
        *key.shape,
        num_prefix,
        keep.data_ptr(),
        removed.data_ptr(),
        target.data_ptr(),
        _pointer(attention),
        _pointer(norm),
        _pointer(context),
        _pointer(score),
        kernels.threads(),
    )
    return Decided(keep, removed, target, (attention, norm, context, score))


def attention_received(
    kernels: Kernels, query: Tensor, key: Tensor, bias: Tensor | None, scale: float, num_prefix: int
) -> Tensor:
    """(B, N_p) what each patch token gets of the attention of (B, H, N, d) queries, mean over heads and queries."""
    query, key, bias = _in_rows(query), _in_rows(key), _floats(bias)
    received = _numbers(key.shape[0], key.shape[2] - num_prefix)
    kernels.module.attention_received(
        query.data_ptr(),
        *query.stride(),
        key.data_ptr(),
        *key.stride(),
        _pointer(bias),
        scale,
        *key.shape,
        num_prefix,
        received.data_ptr(),
        kernels.threads(),
    )
    return received


def decide_mctf(
    kernels: Kernels,
    residual: Tensor,
    received: Tensor,
    size: Tensor | None,
    num_prefix: int,
    amounts: tuple[int, int],
    similar: bool,
    powers: tuple[float, float],
) -> Decided:
    """MCTF's matching.

    Args:
        kernels: The compiled functions.
        residual: (B, N, C) H.
        received: (B, N_p) attention received.
        size: (B, N_p) sizes, or None.
        num_prefix: Prefix tokens P.
        amounts: How many A gives to B, and how many B to A.
        similar: Whether similarity counts.
        powers: Of attention received and of size, in the score; 0 for off.

    Returns:
        The decision, with score (B, N_p) attention received times size, the weights of the pooling.
    """
    residual, received, size = residual.contiguous(), received.contiguous(), _floats(size)
    batch, tokens, channels = residual.shape
    keep, removed, target = _indices(batch, tokens - num_prefix, sum(amounts))
    weight = _numbers(batch, tokens - num_prefix)
    kernels.module.decide_mctf(
        batch,
        tokens,
        channels,
        num_prefix,
        residual.data_ptr(),
        received.data_ptr(),
        _pointer(size),
        *amounts,
        similar,
        *powers,
        keep.data_ptr(),
        removed.data_ptr(),
        target.data_ptr(),
        weight.data_ptr(),
        kernels.threads(),
    )
    return Decided(keep, removed, target, (weight,))


def merge(
    kernels: Kernels,
    indices: tuple[Tensor, Tensor, Tensor | None],
    blend: str,
    x: Tensor,
    num_prefix: int,
    size: Tensor | None,
    weight: Tensor | None,
    attention: Tensor | None,
) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]:
    """Apply `keep`, `removed`, `target` to (B, N, C) tokens; their sizes and A_cls are (B, N_p) or None.

    Returns:
        (B, P + K, C) tokens, (B, K) sizes and (B, 1, 1, P + K) their logarithms (None while all are 1), (B, K) A_cls.
    """
    # kept in variables: memory whose address was taken must not be let go before the call
    keep, removed, target = indices[0].contiguous(), indices[1].contiguous(), indices[2]
    target = None if target is None else target.contiguous()
    x, size, weight, attention = x.contiguous(), _floats(size), _floats(weight), _floats(attention)
    (batch, kept), channels = keep.shape, x.shape[2]
    merged = torch.empty((batch, num_prefix + kept, channels), dtype=torch.float32)
    next_size = log_size = None
    if size is not None or target is not None:
        next_size = _numbers(batch, kept)
        log_size = torch.empty((batch, 1, 1, num_prefix + kept), dtype=torch.float32)
    next_attention = None if attention is None else _numbers(batch, kept)
    kernels.module.merge(
        batch,
        num_prefix,
        kept,
        removed.shape[1],
        channels,
        BLENDS[blend],
        keep.data_ptr(),
        removed.data_ptr(),
        _pointer(target),
        x.data_ptr(),
        _pointer(size),
        _pointer(weight),
        _pointer(attention),
        merged.data_ptr(),
        _pointer(next_size),
        _pointer(log_size),
        _pointer(next_attention),
        kernels.threads(),
    )
    return merged, next_size, log_size, next_attention


def _indices(batch: int, patches: int, r: int) -> tuple[Tensor, Tensor, Tensor]:
    """Room for keep (B, N_p - r), removed (B, r) and target (B, r)."""
    return (
        torch.empty((batch, patches - r), dtype=torch.int64),
        torch.empty((batch, r), dtype=torch.int64),
        torch.empty((batch, r), dtype=torch.int64),
    )


def _numbers(batch: int, count: int) -> Tensor:
    return torch.empty((batch, count), dtype=torch.float32)


def _pointer(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def _in_rows(heads: Tensor) -> Tensor:
    """(B, H, N, d) with each token's numbers one after the other, as every model that we know has them."""
    return heads if heads.stride()[3] == 1 else heads.contiguous()


def _floats(tensor: Tensor | None) -> Tensor | None:
    """Contiguous float32, whatever a method may have put there."""
    if tensor is None:
        return None
    return (tensor if tensor.dtype == torch.float32 else tensor.float()).contiguous()
