"""Tokens kept per block at a budget: a shape says how fast they go over the depth, the budget how many go in all."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise, product

Cost = Callable[[Sequence[int]], float]
"""Multiply-adds of a model whose blocks leave these many patch tokens."""

BUDGET_METHOD = "cluster"
"""The method where a budget is given and no method: the nearest to vanilla of those compared (docs/budget.md)."""
SHAPE: tuple[float, ...] = (0.2, 1.5, 1.5, 0.8, 0.5)
"""How fast tokens go at equally spaced places from the first block to the last, by default slowly in the first ones and
fastest before the middle; one number would be the same share in all blocks. Measured in docs/budget.md."""
FEW_FROM = 0.5
"""Share of the multiply-adds from which on tokens go in few blocks: that comes as near to vanilla as all blocks do, and
every block that chooses takes time to choose. Below it one block would have to remove too much (docs/budget.md)."""
PLACES = (1 / 12, 3 / 12, 5 / 12, 8 / 12)
"""Where in the depth these blocks are."""
SHORTEST = 12
"""Blocks of a model below which tokens go in all of them."""


def fit_shape(
    cost: Cost, limit: float, num_patches: int, depth: int, shape: Sequence[float] | None = None, *, last: bool = True
) -> list[int]:
    """Patch tokens that leave each block, as many as a limit on the multiply-adds allows.

    A block keeps the share exp(-s w) of what enters it, where w is the shape at its depth and s is found by bisection;
    no block removes more than half.

    Args:
        cost: Multiply-adds of tokens kept per block.
        limit: The most that they may cost. The result is below it by less than one token in one block.
        shape: Any number of numbers >= 0, interpolated over the depth; only their proportions matter. By default that
            of SHAPE, from FEW_FROM on in few blocks.
        last: Whether the last block removes tokens too.

    Raises:
        ValueError: Removing as many as possible still costs more; the message names what that costs.

    Example:
        >>> fit_shape(sum, limit=40, num_patches=16, depth=4)
        [16, 10, 7, 7]
    """
    if shape is None:
        if depth >= SHORTEST and limit >= FEW_FROM * cost([num_patches] * depth):
            return _fit_few(cost, limit, num_patches, depth)
        shape = SHAPE
    if not last and depth > 1:
        before = _fit_rates(lambda kept: cost([*kept, kept[-1]]), limit, num_patches, _rates(shape, depth)[:-1])
        return [*before, before[-1]]
    return _fit_rates(cost, limit, num_patches, _rates(shape, depth))


def scale_to_budget(cost: Cost, limit: float, num_patches: int, wanted: Sequence[int]) -> list[int]:
    """Tokens kept per block, more or fewer than `wanted` everywhere, so that a limit on the multiply-adds is met.

    How they fall over the depth is kept as far as possible.

    Example:
        >>> scale_to_budget(sum, 30, 16, [12, 8, 8])
        [12, 9, 9]
    """
    before = [num_patches, *wanted[:-1]]
    ratios = [max(min(now / last, 1.0), 0.5) for now, last in zip(wanted, before, strict=True)]
    if min(ratios) == 1:
        raise ValueError("nothing is removed anywhere, so there is nothing to scale")
    return _fit(cost, limit, lambda strength: _through(num_patches, [ratio**strength for ratio in ratios]), num_patches)


def removed_from(num_patches: int, kept: Sequence[int]) -> list[int]:
    """Tokens that each block removes, of those that leave each block.

    Example:
        >>> removed_from(16, [12, 9, 9])
        [4, 3, 0]
    """
    return [last - now for last, now in zip([num_patches, *kept[:-1]], kept, strict=True)]


def _rates(shape: Sequence[float], depth: int) -> list[float]:
    """The shape at every block, by linear interpolation."""
    if not shape or min(shape) < 0 or max(shape) <= 0 or not all(map(math.isfinite, shape)):
        raise ValueError(f"shape={list(shape)!r}: expected numbers >= 0, at least one above 0")
    rates = []
    for block in range(depth):
        place = block / max(depth - 1, 1) * (len(shape) - 1)
        left = min(int(place), len(shape) - 1)
        right = min(left + 1, len(shape) - 1)
        rates.append(shape[left] + (shape[right] - shape[left]) * (place - left))
    return rates


def _fit_rates(cost: Cost, limit: float, num_patches: int, rates: Sequence[float]) -> list[int]:
    def kept(strength: float) -> list[int]:
        return _through(num_patches, [math.exp(-strength * rate) for rate in rates])

    return _fit(cost, limit, kept, num_patches)


def in_few_blocks(depth: int) -> list[float]:
    """SHAPE at every block, where few blocks remove what all would remove since the one before.

    Example:
        >>> [block for block, rate in enumerate(in_few_blocks(12)) if rate]
        [1, 3, 5, 8]
    """
    rates, gathered = _rates(SHAPE, depth), [0.0] * depth
    for before, block in pairwise([-1, *_few_blocks(depth)]):
        gathered[block] = sum(rates[before + 1 : block + 1])
    return gathered


def _few_blocks(depth: int) -> list[int]:
    return [round(place * depth) for place in PLACES]


def _fit_few(cost: Cost, limit: float, num_patches: int, depth: int) -> list[int]:
    """Tokens that leave each block when they go in few, which are moved by a token or two to come near the limit."""
    blocks, rates = _few_blocks(depth), in_few_blocks(depth)
    fitted = _weakest(cost, limit, lambda s: _through(num_patches, [math.exp(-s * rate) for rate in rates]))[0]
    near = (_moved(fitted, blocks, moves) for moves in product(range(-2, 3), repeat=len(blocks)))
    return max((kept for kept in near if _falls([num_patches, *kept]) and cost(kept) <= limit), key=cost)


def _moved(kept: Sequence[int], blocks: Sequence[int], moves: Sequence[int]) -> list[int]:
    """Some tokens more or fewer from each of some blocks on, up to the next of them."""
    counts = list(kept)
    for block, following, move in zip(blocks, [*blocks[1:], len(counts)], moves, strict=True):
        counts[block:following] = [count + move for count in counts[block:following]]
    return counts


def _falls(counts: Sequence[int]) -> bool:
    """Whether no block adds tokens, or removes more than half."""
    return all(before - before // 2 <= now <= before for before, now in pairwise(counts))


def _through(num_patches: int, ratios: Sequence[float]) -> list[int]:
    """Tokens that leave each block when each keeps a share of what enters, at least half and at most all."""
    counts, exact = [], float(num_patches)
    for ratio in ratios:
        exact *= ratio
        num_patches = min(max(math.ceil(exact - 1e-9), num_patches - num_patches // 2), num_patches)
        counts.append(num_patches)
    return counts


def _fit(cost: Cost, limit: float, kept: Callable[[float], list[int]], num_patches: int) -> list[int]:
    """The weakest strength whose tokens cost at most the limit, and what is then left spent token by token."""
    return _spend(cost, limit, *_weakest(cost, limit, kept), num_patches)


def _weakest(cost: Cost, limit: float, kept: Callable[[float], list[int]]) -> tuple[list[int], list[int]]:
    """Tokens at the weakest strength that costs at most the limit, and at one that is weaker by nearly nothing."""
    low, high = 0.0, 1.0
    if cost(kept(low)) <= limit:
        return kept(low), kept(low)
    while cost(kept(high)) > limit:
        low, high = high, 2 * high
        if high > 2**20:
            raise ValueError(
                f"{limit:.4g} multiply-adds cannot be reached: the most that can be removed leaves "
                f"{cost(kept(high)):.4g}"
            )
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if cost(kept(middle)) > limit else (low, middle)
    return kept(high), kept(low)


def _spend(cost: Cost, limit: float, kept: list[int], more: list[int], num_patches: int) -> list[int]:
    """Raise the tokens kept towards `more`, one token in one block at a time, as far as the limit allows."""
    kept = list(kept)
    while True:
        open_blocks = [
            block for block, most in enumerate(more) if kept[block] < most and _fits(kept, block, num_patches)
        ]
        if not open_blocks:
            return kept
        kept[open_blocks[0]] += 1
        if cost(kept) > limit:
            kept[open_blocks[0]] -= 1
            return kept


def _fits(kept: Sequence[int], block: int, num_patches: int) -> bool:
    """Whether a block may keep one token more: not more than enter it, at most half of them removed by the next."""
    count = kept[block] + 1
    entering = num_patches if block == 0 else kept[block - 1]
    following = kept[block + 1] if block + 1 < len(kept) else count
    return count <= entering and count - following <= count // 2
