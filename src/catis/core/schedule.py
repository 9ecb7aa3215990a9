"""How many patch tokens each block removes: every spelling of `r` becomes one frozen, checked Schedule."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from numbers import Real
from typing import Any

from catis.core.amounts import bad, capped, count_of, counts_of, inflect_of, inflected, shaped


@dataclass(frozen=True)
class Schedule:
    """Patch tokens to remove per block, for a model of any depth.

    Build one with `Schedule.parse` from a Python value, `from_text` from the command line, `from_json` from a file.
    `bound` fits it to a model's depth; only a schedule with an inflect needs that before it can be asked for amounts.

    Attributes:
        r: A count for every block, a fraction in (0, 1) of the tokens present, or one count per block.
        inflect: Spreads a count linearly over the depth, with mean r; 0 is constant.
        budget: Share of vanilla's multiply-adds, from which a model's handle finds the counts; None where r says it.
        patches: Patch tokens at the start that one count per block was made for: with more or fewer, every block keeps
            the same share. 0 where the counts hold for any number.

    Example:
        >>> Schedule.parse(8).token_counts(depth=3, num_patches=64)
        [56, 48, 40]
        >>> Schedule.parse((8, -1.0)).bound(depth=3).r
        (16, 8, 0)
        >>> Schedule.parse(0.25).token_counts(depth=2, num_patches=16)
        [12, 9]
    """

    r: int | float | tuple[int, ...] = 0
    inflect: float = 0.0
    budget: float | None = None
    patches: int = 0

    @classmethod
    def of_budget(cls, budget: float) -> Schedule:
        """A share of vanilla's multiply-adds, still without counts.

        Raises:
            ValueError: Not a number above 0, at most 1.

        Example:
            >>> str(Schedule.of_budget(0.36))
            'budget=0.36'
        """
        if isinstance(budget, bool) or not isinstance(budget, Real) or not 0 < float(budget) <= 1:
            raise ValueError(f"budget={budget!r}: expected a share of vanilla's multiply-adds, above 0, at most 1")
        return cls(budget=float(budget))

    @classmethod
    def of_kept(cls, kept: Sequence[int], patches: int, budget: float | None = None) -> Schedule:
        """A schedule from the patch tokens that leave each block, for an input of `patches`.

        Raises:
            ValueError: A block adds tokens, or removes more than half of them.

        Example:
            >>> Schedule.of_kept([12, 9], patches=16).token_counts(depth=2, num_patches=32)
            [24, 18]
        """
        removed = tuple(entering - leaving for entering, leaving in pairwise((patches, *kept)))
        for block, (entering, r) in enumerate(zip((patches, *kept), removed, strict=False)):
            if not 0 <= r <= entering // 2:
                raise ValueError(
                    f"kept={list(kept)} of {patches}: block {block} goes from {entering} to {entering - r} tokens; "
                    "expected no more than enter it, and at least half"
                )
        return cls(removed, budget=budget, patches=patches)

    @classmethod
    def parse(cls, r: RLike | None, shape: str | None = None) -> Schedule:
        """Check any Python spelling of r and turn it into a Schedule.

        Args:
            r: An int, a fraction in (0, 1), a list with one entry per block, (r, inflect), or a Schedule.
            shape: "constant", "decreasing" or "increasing", for an int r.

        Raises:
            ValueError: r is negative, not finite, a bool, a string or otherwise unusable.
        """
        if isinstance(r, Schedule):
            return r
        if shape is not None:
            r = shaped(r, shape)
        if isinstance(r, tuple) and len(r) == 2:
            return cls(count_of(r[0], r), inflect_of(r[1], r))
        if isinstance(r, Sequence) and not isinstance(r, (str, bytes, tuple)):
            return cls(tuple(count_of(value, list(r)) for value in r))
        if isinstance(r, float) and 0.0 < r < 1.0:
            return cls(float(r))
        return cls(count_of(r, r))

    @classmethod
    def from_text(cls, text: str) -> Schedule:
        """The command line's spelling; `str` of a schedule gives it back.

        Example:
            >>> [str(Schedule.from_text(text)) for text in ("13", "0.1", "16,8", "8:-1")]
            ['13', '0.1', '16,8', '8:-1']
        """
        expected = "expected a number (13), a share (0.1), one number per block (16,12,8) or r:inflect (8:-1)"
        try:
            value = _value(text)
        except ValueError as error:
            raise ValueError(f"-r {text}: {expected}") from error
        try:
            return cls.parse(value)
        except ValueError as error:
            why = str(error).partition(": ")[2].partition(";")[0]
            raise ValueError(f"-r {text}: {why}; {expected}") from error

    @classmethod
    def from_json(cls, value: Any) -> Schedule:
        """A file's spelling: what `to_json` writes."""
        if isinstance(value, Mapping) and set(value) == {"r", "inflect"}:
            value = (value["r"], value["inflect"])
        elif isinstance(value, Mapping) and set(value) == {"budget"}:
            return cls.of_budget(value["budget"])
        elif isinstance(value, Mapping) and {"kept", "patches"} <= set(value) <= {"kept", "patches", "budget"}:
            budget = value.get("budget")
            return cls.of_kept(counts_of(value["kept"]), count_of(value["patches"], value), budget and float(budget))
        return cls.parse(value)

    def to_json(self) -> Any:
        """Plain data: a number, a list with one number per block, or a mapping.

        Example:
            >>> Schedule.parse([16, 8]).to_json(), Schedule.parse((8, -1)).to_json()
            ([16, 8], {'r': 8, 'inflect': -1.0})
            >>> Schedule.of_budget(0.5).to_json(), Schedule.of_kept([12, 9], 16).to_json()
            ({'budget': 0.5}, {'kept': [12, 9], 'patches': 16})
        """
        share = {} if self.budget is None else {"budget": self.budget}
        if self.patches:
            assert isinstance(self.r, tuple)
            kept = [self.patches - gone for gone in accumulate(self.r)]
            return {"kept": kept, "patches": self.patches, **share}
        if share:
            return share
        if self.inflect:
            return {"r": self.r, "inflect": self.inflect}
        return list(self.r) if isinstance(self.r, tuple) else self.r

    def __str__(self) -> str:
        if self.budget is not None:
            return f"budget={self.budget:g}"
        if self.inflect:
            return f"{self.r}:{self.inflect:g}"
        counts = ",".join(map(str, self.r)) if isinstance(self.r, tuple) else f"{self.r:g}"
        return f"{counts}@{self.patches}" if self.patches else counts

    @property
    def label(self) -> str:
        """The amount with its name, as tables and runs say it.

        Example:
            >>> Schedule.parse(13).label, Schedule.of_budget(0.36).label
            ('r=13', 'budget=0.36')
        """
        return str(self) if self.budget is not None else f"r={self}"

    @property
    def is_vanilla(self) -> bool:
        """Whether no block removes anything, so that the model is the unreduced one."""
        if self._lacks_counts:
            return self.budget == 1
        return not any(self.r) if isinstance(self.r, tuple) else not self.r

    @property
    def _lacks_counts(self) -> bool:
        return self.budget is not None and not self.patches

    def bound(self, depth: int) -> Schedule:
        """The shortest spelling of the same amounts for a model of `depth` blocks; has no inflect.

        Raises:
            ValueError: The schedule lists amounts for another number of blocks.

        Example:
            >>> Schedule.parse([8, 8, 8]).bound(3)
            Schedule(r=8, inflect=0.0, budget=None, patches=0)
        """
        amounts = self.r
        if self._lacks_counts:
            raise ValueError(f"{self}: the counts follow from what a model costs; hosts.find(model).bind finds them")
        if self.inflect:
            assert isinstance(self.r, int)
            amounts = inflected(self.r, self.inflect, depth)
        if not isinstance(amounts, tuple):
            return self
        if len(amounts) != depth:
            raise bad(list(amounts), f"{len(amounts)} entries for {depth} blocks")
        if self.patches:
            return self
        return replace(self, r=amounts[0] if len(set(amounts)) == 1 else amounts, inflect=0.0)

    def scaled(self, num_patches: int) -> Schedule:
        """The same shares of another number of patch tokens at the start, where the counts were made for one number.

        Example:
            >>> Schedule.of_kept([12, 9], patches=16).scaled(64).r
            (16, 12)
        """
        if not self.patches or num_patches == self.patches:
            return self
        assert isinstance(self.r, tuple)
        kept, entering = [], num_patches
        for gone in accumulate(self.r):
            share = round((self.patches - gone) * num_patches / self.patches)
            entering = min(entering, max(share, entering - entering // 2))
            kept.append(entering)
        return Schedule.of_kept(kept, num_patches, self.budget)

    def wanted(self, block: int) -> int | float:
        """What is asked of a block: a count, or a fraction below 1."""
        if self.inflect:
            raise ValueError(f"r={self}: how it is spread depends on the depth of the model; call bound(depth) first")
        return self.r[block] if isinstance(self.r, tuple) else self.r

    def amount(self, block: int, num_patches: int) -> int:
        """Patch tokens that a block removes when `num_patches` enter it (the budget contract)."""
        wanted = self.wanted(block)
        return capped(math.floor(wanted * num_patches) if isinstance(wanted, float) else wanted, num_patches)

    def token_counts(self, depth: int, num_patches: int) -> list[int]:
        """Patch tokens that leave each block, for an image of `num_patches` patches."""
        schedule, counts = self.bound(depth).scaled(num_patches), []
        for block in range(depth):
            num_patches -= schedule.amount(block, num_patches)
            counts.append(num_patches)
        return counts


RLike = int | float | Sequence[int] | tuple[int, float] | Schedule
"""Every Python spelling of r."""


def _value(text: str) -> RLike:
    """The Python value of the command line's spelling."""
    if text.startswith("budget="):
        return Schedule.of_budget(float(text.removeprefix("budget=")))
    if "@" in text:
        counts, _, patches = text.partition("@")
        removed = [int(part) for part in counts.split(",")]
        return Schedule.of_kept([int(patches) - gone for gone in accumulate(removed)], int(patches))
    if ":" in text:
        mean, inflect = text.split(":")
        return int(mean), float(inflect)
    if "," in text:
        return [int(part) for part in text.split(",")]
    return float(text) if "." in text else int(text)
