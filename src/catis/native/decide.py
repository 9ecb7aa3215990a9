"""Deciding as one compiled call per block: what C needs to know of the tensors, and room for what it gives back."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor

from catis.native.library import Kernels
from catis.native.memory import floats, in_rows, new_floats, new_indices, pointer

__all__ = ["Decided", "attention_received", "decide_catis", "decide_mctf", "decide_pitome", "decide_tome"]


class Decided(NamedTuple):
    """What happens to the patch tokens: the fields of a Plan of the same names, and the scores behind them."""

    keep: Tensor
    removed: Tensor
    target: Tensor
    scores: tuple[Any, ...]


def decide_tome(kernels: Kernels, key: Tensor, num_prefix: int, r: int, explain: bool) -> Decided:
    """ToMe's matching on (B, H, N, d) keys; the score of an A token is its best similarity, NaN for B."""
    key = in_rows(key)
    batch, _, tokens, _ = key.shape
    keep, removed, target = new_indices(batch, tokens - num_prefix, r)
    score = new_floats(batch, tokens - num_prefix) if explain else None
    kernels.module.decide_tome(
        key.data_ptr(),
        *key.stride(),
        *key.shape,
        num_prefix,
        r,
        keep.data_ptr(),
        removed.data_ptr(),
        target.data_ptr(),
        pointer(score),
        kernels.threads(),
    )
    return Decided(keep, removed, target, (score,))


def decide_pitome(kernels: Kernels, key: Tensor, num_prefix: int, r: int, margin: float, pure: bool) -> Decided:
    """PiToMe's order and matching on (B, H, N, d) keys; the score is the energy."""
    key = in_rows(key)
    batch, _, tokens, _ = key.shape
    keep, removed, target = new_indices(batch, tokens - num_prefix, r)
    score = new_floats(batch, tokens - num_prefix)
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
    query, key, content_key = in_rows(projected[0]), in_rows(projected[1]), in_rows(projected[2])
    features, bias, previous = features.contiguous(), floats(biases[0]), floats(biases[1])
    keep, removed, target = new_indices(batch, tokens - num_prefix, amounts[0])
    attention = new_floats(batch, tokens - num_prefix) if uses[0] else None
    norm = context = score = None
    if explain:
        norm, context, score = (new_floats(batch, tokens - num_prefix) for _ in range(3))
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
        pointer(bias),
        pointer(previous),
        *amounts,
        uses[1],
        uses[2],
        *theta,
        *key.shape,
        num_prefix,
        keep.data_ptr(),
        removed.data_ptr(),
        target.data_ptr(),
        pointer(attention),
        pointer(norm),
        pointer(context),
        pointer(score),
        kernels.threads(),
    )
    return Decided(keep, removed, target, (attention, norm, context, score))


def attention_received(
    kernels: Kernels, query: Tensor, key: Tensor, bias: Tensor | None, scale: float, num_prefix: int
) -> Tensor:
    """(B, N_p) what each patch token gets of the attention of (B, H, N, d) queries, mean over heads and queries."""
    query, key, bias = in_rows(query), in_rows(key), floats(bias)
    received = new_floats(key.shape[0], key.shape[2] - num_prefix)
    kernels.module.attention_received(
        query.data_ptr(),
        *query.stride(),
        key.data_ptr(),
        *key.stride(),
        pointer(bias),
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
    residual, received, size = residual.contiguous(), received.contiguous(), floats(size)
    batch, tokens, channels = residual.shape
    keep, removed, target = new_indices(batch, tokens - num_prefix, sum(amounts))
    weight = new_floats(batch, tokens - num_prefix)
    kernels.module.decide_mctf(
        batch,
        tokens,
        channels,
        num_prefix,
        residual.data_ptr(),
        received.data_ptr(),
        pointer(size),
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
