"""Token reduction written out the slow way, one image and one token at a time, to check the fast one against.

Nothing of catis is used here. Blocks are put together from the model's weights; ToMe and CATIS follow SPEC 4 with
Python lists.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

TAU, EVICT_RATIO, GAMMA, W_CLS, L_START = 0.6, 0.5, 0.5, 0.5, 2


@dataclass
class Tokens:
    """One image: prefix vectors, patch vectors, and for each patch token the original patches in it."""

    prefix: Tensor
    patches: list[Tensor]
    groups: list[list[int]]
    rope: list[Tensor | None]
    cls_history: list[float] | None = None
    window: list[int] | None = None
    offset: dict[int, Tensor] = field(default_factory=dict)
    evicted: list[int] = field(default_factory=list)

    def sequence(self) -> Tensor:
        return torch.cat([self.prefix, torch.stack(self.patches)])

    def weights(self) -> Tensor:
        return torch.tensor([float(len(group)) for group in self.groups], dtype=self.prefix.dtype)

    def sizes(self) -> Tensor:
        return torch.cat([torch.ones(len(self.prefix), dtype=self.prefix.dtype), self.weights()])


@dataclass(frozen=True)
class Layer:
    """Weights and small modules of one layer, under one set of names."""

    norm1: Any
    query: Any
    key: Any
    value: Any
    out: Any
    scale1: Callable[[Tensor], Tensor]
    mlp: Callable[[Tensor], Tensor]
    heads: int
    windowed: bool = False


def rotate(vector: Tensor, rope: Tensor) -> Tensor:
    """One head vector turned by its (cos, sin) row."""
    cos, sin = rope.chunk(2)
    half = len(vector) // 2
    return vector * cos + torch.cat([-vector[half:], vector[:half]]) * sin


def attention(layer: Layer, tokens: Tokens, z: Tensor) -> tuple[Tensor, list[Tensor], list[float]]:
    """Output of attention, content keys averaged over heads, and the CLS row over the patches."""
    count, prefix = len(z), len(tokens.prefix)
    query, key, value = (proj(z).view(count, layer.heads, -1) for proj in (layer.query, layer.key, layer.value))
    metric = [key[prefix + i].mean(0) for i in range(len(tokens.patches))]
    query, key = query.clone(), key.clone()
    for i, rope in enumerate(tokens.rope):
        if rope is not None:
            for head in range(layer.heads):
                query[prefix + i, head] = rotate(query[prefix + i, head], rope)
                key[prefix + i, head] = rotate(key[prefix + i, head], rope)
    outputs, rows = [], []
    for head in range(layer.heads):
        logits = query[:, head] @ key[:, head].T / math.sqrt(query.shape[-1]) + tokens.sizes().log()
        if layer.windowed:
            for i, mine in enumerate(tokens.window):
                for j, other in enumerate(tokens.window):
                    logits[i, j] = logits[i, j] if mine == other else -math.inf
        weights = logits.softmax(-1)
        rows.append(weights[0, prefix:])
        outputs.append(weights @ value[:, head])
    row = torch.stack(rows).mean(0)
    return layer.out(torch.cat(outputs, -1)), metric, (row / row.sum()).tolist()


def cosine(a: Tensor, b: Tensor) -> float:
    return float(a @ b / (a.norm() * b.norm()))


def best_partner(source: int, others: list[int], metric: list[Tensor]) -> tuple[float, int]:
    similarity = [cosine(metric[source], metric[other]) for other in others]
    best = max(similarity)
    return best, others[similarity.index(best)]


Decision = tuple[list[int], dict[int, int], list[int]]
"""Tokens that stay, in order; source -> destination; tokens that are evicted."""


def tome(metric: list[Tensor], r: int, num_prefix: int) -> Decision:
    side_a = [i for i in range(len(metric)) if (i + num_prefix) % 2 == 0]
    side_b = [i for i in range(len(metric)) if (i + num_prefix) % 2 == 1]
    edges = sorted(((*best_partner(a, side_b, metric), a) for a in side_a), key=lambda edge: -edge[0])
    merged = {a: b for _, b, a in edges[:r]}
    left = [a for _, _, a in edges[r:]]
    return (sorted(left) if num_prefix else left) + side_b, merged, []


def zscore(values: list[float]) -> list[float]:
    mean = sum(values) / len(values)
    spread = math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))
    return [(value - mean) / spread for value in values]


def catis(metric: list[Tensor], score: list[float], r: int) -> Decision:
    evictable = [i for i, s in enumerate(score) if s < -TAU]
    pool = [i for i, s in enumerate(score) if -TAU <= s <= TAU]
    wanted = r - min(math.floor(EVICT_RATIO * r), len(evictable))
    side_a, side_b = pool[::2], pool[1::2]
    edges = sorted(((*best_partner(a, side_b, metric), a) for a in side_a if side_b), key=lambda edge: -edge[0])
    merged = {a: b for _, b, a in edges[:wanted]}
    busy = set(merged) | set(merged.values())
    free = sorted((s, i) for i, s in enumerate(score) if i not in busy)
    evicted = [i for _, i in free[: r - len(merged)]]
    return [i for i in range(len(score)) if i not in merged and i not in evicted], merged, evicted


def scores(z: Tensor, row: list[float], history: list[float] | None, layer: int, has_cls: bool) -> list[float]:
    spread = z.std(0, correction=0)
    norm = zscore([float(((token - z.mean(0)) / spread).norm()) for token in z])
    if not has_cls or layer < L_START:
        return norm
    momentum = (
        row if history is None else [(1 + GAMMA) * now - GAMMA * old for now, old in zip(row, history, strict=True)]
    )
    return [W_CLS * c + (1 - W_CLS) * n for c, n in zip(zscore(momentum), norm, strict=True)]


def carry(row: list[float], keep: list[int], merged: dict[int, int]) -> list[float]:
    total = dict(enumerate(row))
    for source, destination in merged.items():
        total[destination] += row[source]
    left = [total[i] for i in keep]
    return [value / sum(left) for value in left]


def apply_decision(tokens: Tokens, hidden: Tensor, decision: Decision) -> None:
    keep, merged, evicted = decision
    prefix = len(tokens.prefix)
    vectors, groups = {}, {}
    for i in keep:
        members = [i] + [source for source, destination in merged.items() if destination == i]
        size = [len(tokens.groups[m]) for m in members]
        vectors[i] = sum(n * hidden[prefix + m] for n, m in zip(size, members, strict=True)) / sum(size)
        groups[i] = [patch for m in members for patch in tokens.groups[m]]
        for m in members:
            for patch in tokens.groups[m]:
                tokens.offset[patch] = tokens.offset.get(patch, 0.0) + hidden[prefix + m] - vectors[i]
    tokens.evicted += [patch for i in evicted for patch in tokens.groups[i]]
    tokens.prefix = hidden[:prefix]
    tokens.patches = [vectors[i] for i in keep]
    tokens.groups = [groups[i] for i in keep]
    tokens.rope = [tokens.rope[i] for i in keep]
    tokens.window = None if tokens.window is None else [tokens.window[i] for i in keep]


def run(layers: list[Layer], tokens: Tokens, method: str, r: int, has_cls: bool) -> Tokens:
    """All layers of one image."""
    for index, layer in enumerate(layers):
        z = layer.norm1(tokens.sequence())
        update, metric, row = attention(layer, tokens, z)
        hidden = tokens.sequence() + layer.scale1(update)
        amount, prefix = 0 if layer.windowed else min(r, len(metric) // 2), len(tokens.prefix)
        if amount == 0:
            decision = list(range(len(metric))), {}, []
        elif method == "tome":
            decision = tome(metric, amount, prefix)
        else:
            score = scores(z[prefix:], row, tokens.cls_history, index, has_cls)
            decision = catis(metric, score, amount)
            tokens.cls_history = carry(row, decision[0], decision[1]) if index + 1 >= L_START else None
        apply_decision(tokens, hidden, decision)
        after = tokens.sequence() + layer.mlp(tokens.sequence())
        tokens.prefix, tokens.patches = after[:prefix], list(after[prefix:])
    return tokens


def full_grid(tokens: Tokens, vectors: Tensor) -> Tensor:
    """Every original patch with its group's vector, evicted ones with the size-weighted mean of the rest."""
    count = sum(len(group) for group in tokens.groups) + len(tokens.evicted)
    grid = [weighted_mean(tokens, vectors)] * count
    for group, vector in zip(tokens.groups, vectors, strict=True):
        for patch in group:
            grid[patch] = vector
    return torch.stack(grid)


def weighted_mean(tokens: Tokens, vectors: Tensor) -> Tensor:
    return sum(len(group) * vector for group, vector in zip(tokens.groups, vectors, strict=True)) / sum(
        len(group) for group in tokens.groups
    )
