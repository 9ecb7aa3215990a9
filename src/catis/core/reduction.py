"""What is put on a model: a method with its options, how many tokens go, and whether attention counts sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import accumulate
from typing import Any, ClassVar

from catis.core.budget import BUDGET_METHOD
from catis.core.method import Method
from catis.core.per_block import PerBlock
from catis.core.schedule import RLike, Schedule
from catis.core.switches import Output, check_choice, check_gain, check_output, check_side, check_soften
from catis.registry import create_method

VANILLA = "vanilla"
"""What the unreduced model is called wherever a method has its name."""
NOTHING = Schedule()
_SWITCHES = ("prop_attn", "output", "head_only", "size_gain", "soften", "restore_norm", "input_size", "budget")
_KEYS = ("method", "r", "options", *_SWITCHES)


@dataclass(frozen=True)
class _Vanilla(Method):
    """Removes nothing."""

    name: ClassVar[str] = VANILLA


@dataclass(frozen=True)
class Reduction:
    """One reduction, for models of any depth; `bound` fits it to one model.

    Build it with `Reduction.of`, which checks everything that can be checked without a model.

    Attributes:
        method: The method, which holds its options.
        schedule: Tokens to remove per block; 0 where the method decides the amounts itself.
        prop_attn: Add log(size) to the attention logits (proportional attention).
        output: What leaves the model's blocks: "grid", every patch with its token's vector, or "tokens", those that are
            left, for a language model that takes fewer.
        windowed: Blocks of the model whose attention is in windows, which remove nothing; set by `bound`.
        head_only: The last block computes the prefix tokens alone, and removes nothing: the logits are the same where
            the head reads nothing else. None is off; with a budget it is on where that is so.
        size_gain: Factor on log(size) in the attention logits; one number, or one per block; None for the method's own.
        soften: How much softer attention gets as tokens go: its logits are multiplied by 1 - soften times the share of
            the patch tokens that are gone; None for the method's own.
        restore_norm: Whether a merged token gets the mean norm of its members; None for the method's own.
        input_size: Side to which images are resized first, so that there are fewer patches; None for as they come.

    Example:
        >>> reduction = Reduction.of("catis", r=13, tau=0.8)
        >>> str(reduction), reduction == Reduction.from_json(reduction.to_json())
        ('catis r=13', True)
    """

    method: Method
    schedule: Schedule = NOTHING
    prop_attn: bool = True
    output: Output = "grid"
    windowed: tuple[int, ...] = ()
    head_only: bool | None = None
    size_gain: float | tuple[float, ...] | None = None
    soften: float | None = None
    restore_norm: bool | None = None
    input_size: int | None = None

    @classmethod
    def of(
        cls,
        method: str | Method | None = None,
        r: RLike | None = None,
        *,
        schedule: str | Schedule | None = None,
        prop_attn: bool = True,
        output: Output = "grid",
        head_only: bool | None = None,
        size_gain: float | Sequence[float] | None = None,
        soften: float | None = None,
        restore_norm: bool | None = None,
        input_size: int | None = None,
        budget: float | None = None,
        **options: Any,
    ) -> Reduction:
        """Check a method, an amount and options, in any spelling of `catis.apply`.

        The method is "catis" by default; with a budget, what was best there ("cluster", docs/budget.md).

        Raises:
            ValueError: A bad method, amount or option.
        """
        choices = {"head_only": head_only, "restore_norm": restore_norm}
        checked: dict[str, Any] = {name: check_choice(name, value) for name, value in choices.items()}
        checked |= {"size_gain": check_gain(size_gain), "input_size": check_side(input_size)}
        checked |= {"soften": check_soften(soften)}
        named = _usual_method(r, schedule, budget) if method is None else method
        built = cls(_build(named, options), prop_attn=bool(prop_attn), output=check_output(output), **checked)
        return built._removing(r, schedule, budget)

    def _removing(self, r: RLike | None, schedule: str | Schedule | None, budget: float | None) -> Reduction:
        """The same with an amount, which is said once and in one way."""
        if budget is not None:
            if r is not None or schedule is not None:
                raise ValueError(
                    f"budget={budget!r} beside r={r!r}, schedule={schedule!r}: one of them says how many go"
                )
            schedule = Schedule.of_budget(budget)
        if self.method.name == VANILLA and schedule is None and r in (None, 0):
            return self
        if self.method.own_amounts:
            if r is not None or schedule is not None:
                why = f"{self.method.name} with a ratio decides the amounts itself"
                raise ValueError(f"r={r!r}, schedule={schedule!r}: {why}")
            return self
        if isinstance(schedule, Schedule):
            if r is not None:
                raise ValueError(f"r={r!r} and schedule={schedule!r} were given; one of them says how many tokens go")
            return replace(self, schedule=schedule)
        return replace(self, schedule=Schedule.parse(r, schedule))

    @classmethod
    def none(cls) -> Reduction:
        """The reduction of a vanilla model: nothing is removed."""
        return cls(_Vanilla())

    @classmethod
    def from_json(cls, content: Any, where: str = "reduction") -> Reduction:
        """A reduction from plain data with the keys of `to_json`; all but method have defaults.

        Raises:
            ValueError: A key is missing or unknown, or a value is bad; the message begins with `where`.
        """
        if not isinstance(content, Mapping) or "method" not in content:
            raise ValueError(f"{where}: expected a mapping with the keys {', '.join(_KEYS)}; method is needed")
        unknown = sorted(set(content) - set(_KEYS))
        if unknown:
            raise ValueError(f"{where} has the unknown keys {', '.join(unknown)}; expected {', '.join(_KEYS)}")
        method = content["method"]
        if isinstance(method, list):  # one per block
            each = [cls.from_json({**own, "r": 0}, f"{where}, block {block}") for block, own in enumerate(method)]
            method = PerBlock(tuple(reduction.method for reduction in each))
        r, options = content.get("r"), content.get("options", {})
        if not isinstance(options, Mapping):
            raise ValueError(f"{where}: options is {options!r:.60}, expected a mapping")
        if not isinstance(content.get("prop_attn", True), bool):
            raise ValueError(f"{where}: prop_attn is {content['prop_attn']!r:.60}, expected true or false")
        schedule = None if r is None else Schedule.from_json(r)
        how: dict[str, Any] = {key: content[key] for key in _SWITCHES if key in content}
        return cls.of(_build(method, options), schedule=schedule, **how)

    def to_json(self) -> dict[str, Any]:
        """Plain data, the inverse of `from_json`; all options are in it, defaults too, but not what is off."""
        told = {**_told(self.method), "r": self.r, "prop_attn": self.prop_attn}
        if isinstance(self.method, PerBlock):
            told["method"] = [_told(method) for method in self.method.methods]
            told["options"] = {}
        gain = list(self.size_gain) if isinstance(self.size_gain, tuple) else self.size_gain
        others = {"output": self.output, "head_only": self.head_only, "size_gain": gain}
        others |= {"soften": self.soften, "restore_norm": self.restore_norm, "input_size": self.input_size}
        return told | {name: value for name, value in others.items() if value != _DEFAULTS[name]}

    def __str__(self) -> str:
        amount = "" if self.r is None or self._removes_nothing else f" {self.schedule.label}"
        size = "" if self.input_size is None else f" {self.input_size} px"
        return f"{self.method.name}{amount}{size}{' head-only' if self.head_only else ''}"

    @property
    def r(self) -> Any:
        """The amount as JSON spells it; None where the method decides the amounts itself."""
        return None if self.method.own_amounts else self.schedule.to_json()

    @property
    def budget(self) -> float | None:
        """Share of vanilla's multiply-adds that was asked for; None where an amount was."""
        return self.schedule.budget

    @property
    def options(self) -> dict[str, Any]:
        """All options of the method."""
        return {option.name: getattr(self.method, option.name) for option in fields(self.method)}

    @property
    def is_vanilla(self) -> bool:
        """Whether the model runs exactly as without catis, to the last bit."""
        return self._removes_nothing and not self.head_only and self.input_size is None

    @property
    def _removes_nothing(self) -> bool:
        return self.schedule.is_vanilla and not self.method.own_amounts

    def bound(self, depth: int, num_prefix: int, windowed: tuple[int, ...] = ()) -> Reduction:
        """The same reduction, checked against a model and spelled in the shortest way for its depth.

        Args:
            depth: Blocks of the model.
            num_prefix: Its prefix tokens.
            windowed: Its blocks that attend in windows, where no token may go.

        Raises:
            ValueError: The method or the schedule does not fit the model.
        """
        self.method.check(num_prefix, depth)
        if isinstance(self.schedule.r, tuple) and any(self.schedule.r[block] for block in windowed):
            raise ValueError(
                f"r={list(self.schedule.r)}: blocks {', '.join(map(str, windowed))} attend in windows and remove "
                "nothing; give 0 there"
            )
        if self.method.block_runner is not None:
            self._check_own_way()
        if isinstance(self.size_gain, tuple) and len(self.size_gain) != depth:
            raise ValueError(f"size_gain={list(self.size_gain)}: {len(self.size_gain)} entries for {depth} blocks")
        return replace(self, schedule=self.schedule.bound(depth), windowed=windowed)

    def _check_own_way(self) -> None:
        """A form of a method that runs its blocks itself knows nothing of these switches."""
        form = f"this form of {self.method.name}"
        if self.head_only:
            raise ValueError(f"head_only=True: {form} runs all blocks in a way of its own")
        if self.restore_norm:
            raise ValueError(f"restore_norm=True: {form} merges in a way of its own")
        if self.soften:
            raise ValueError(f"soften={self.soften:g}: {form} attends in a way of its own")

    def gain(self, block: int, depth: int) -> float:
        """Factor on log(size) in the attention of one of so many blocks."""
        if self.size_gain is None:
            return self.method.at(block).size_gain(block / max(depth - 1, 1))
        return self.size_gain[block] if isinstance(self.size_gain, tuple) else self.size_gain

    def softens(self, block: int) -> float:
        """How much softer attention gets in a block as tokens go."""
        return self.method.at(block).soften if self.soften is None else self.soften

    def restores_norm(self, block: int) -> bool:
        """Whether a token that merged in a block gets the mean norm of its members."""
        return self.method.at(block).restore_norm if self.restore_norm is None else self.restore_norm

    def amounts(self, depth: int, num_patches: int, num_prefix: int) -> list[int]:
        """Patch tokens that each block removes, for an image of `num_patches` patches."""
        removed: list[int] = []
        schedule = self.schedule.scaled(num_patches)
        for block in range(depth):
            full = block in self.windowed or (self.head_only and block == depth - 1)
            removed.append(0 if full else self.method.amount(schedule, block, num_patches, num_prefix))
            num_patches -= removed[-1]
        return removed

    def token_counts(self, depth: int, num_patches: int, num_prefix: int) -> Sequence[int]:
        """Patch tokens that leave each block."""
        return [num_patches - gone for gone in accumulate(self.amounts(depth, num_patches, num_prefix))]


def _usual_method(r: RLike | None, schedule: str | Schedule | None, budget: float | None) -> str:
    """Name of the method that is meant where none was named."""
    asked = [given.budget for given in (r, schedule) if isinstance(given, Schedule)]
    return BUDGET_METHOD if budget is not None or any(share is not None for share in asked) else "catis"


def _build(method: str | Method, options: Mapping[str, Any]) -> Method:
    if isinstance(method, Method):
        if options:
            kind = type(method).__name__
            raise ValueError(f"options {sorted(options)} with a built {kind}: set them when you build it")
        return method
    return _Vanilla() if method == VANILLA and not options else create_method(method, **options)


def _told(method: Method) -> dict[str, Any]:
    """A method as plain data: its name, and all of its options."""
    given = {option.name: getattr(method, option.name) for option in fields(method)}
    values = {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}
    return {"method": method.name, "options": values}


_DEFAULTS = {option.name: option.default for option in fields(Reduction)}
