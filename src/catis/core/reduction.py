"""What is put on a model: a method with its options, how many tokens go, and whether attention counts sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import accumulate
from typing import Any, ClassVar, Literal, get_args

from catis.core.method import Method
from catis.core.schedule import RLike, Schedule
from catis.registry import create_method

__all__ = ["VANILLA", "Output", "Reduction"]

VANILLA = "vanilla"
"""What the unreduced model is called wherever a method has its name."""
NOTHING = Schedule()
_KEYS = ("method", "r", "options", "prop_attn", "output")
Output = Literal["grid", "tokens"]


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

    @classmethod
    def of(
        cls,
        method: str | Method = "catis",
        r: RLike | None = None,
        *,
        schedule: str | Schedule | None = None,
        prop_attn: bool = True,
        output: Output = "grid",
        **options: Any,
    ) -> Reduction:
        """Check a method, an amount and options, in any spelling of `catis.apply`.

        Raises:
            ValueError: A bad method, amount or option.
        """
        if output not in get_args(Output):
            raise ValueError(f"output={output!r}: expected one of {list(get_args(Output))}")
        built = cls(_build(method, options), prop_attn=bool(prop_attn), output=output)
        if built.method.name == VANILLA and schedule is None and r in (None, 0):
            return built
        if built.method.own_amounts:
            if r is not None or schedule is not None:
                why = f"{built.method.name} with a ratio decides the amounts itself"
                raise ValueError(f"r={r!r}, schedule={schedule!r}: {why}")
            return built
        if isinstance(schedule, Schedule):
            if r is not None:
                raise ValueError(f"r={r!r} and schedule={schedule!r} were given; one of them says how many tokens go")
            return replace(built, schedule=schedule)
        return replace(built, schedule=Schedule.parse(r, schedule))

    @classmethod
    def none(cls) -> Reduction:
        """The reduction of a vanilla model: nothing is removed."""
        return cls(_Vanilla())

    @classmethod
    def from_json(cls, content: Any, where: str = "reduction") -> Reduction:
        """A reduction from plain data with the keys method, r, options and prop_attn.

        Raises:
            ValueError: A key is missing or unknown, or a value is bad; the message begins with `where`.
        """
        if not isinstance(content, Mapping) or "method" not in content:
            raise ValueError(f"{where}: expected a mapping with the keys {', '.join(_KEYS)}; method is needed")
        unknown = sorted(set(content) - set(_KEYS))
        if unknown:
            raise ValueError(f"{where} has the unknown keys {', '.join(unknown)}; expected {', '.join(_KEYS)}")
        r, options = content.get("r"), content.get("options", {})
        if not isinstance(options, Mapping):
            raise ValueError(f"{where}: options is {options!r:.60}, expected a mapping")
        if not isinstance(content.get("prop_attn", True), bool):
            raise ValueError(f"{where}: prop_attn is {content['prop_attn']!r:.60}, expected true or false")
        given: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in options.items()
        }
        schedule = None if r is None else Schedule.from_json(r)
        how: dict[str, Any] = {"prop_attn": content.get("prop_attn", True), "output": content.get("output", "grid")}
        return cls.of(_build(content["method"], given), schedule=schedule, **how)

    def to_json(self) -> dict[str, Any]:
        """Plain data, the inverse of `from_json`; all options are in it, defaults too."""
        values = {name: list(value) if isinstance(value, tuple) else value for name, value in self.options.items()}
        plain = {"method": self.method.name, "r": self.r, "options": values, "prop_attn": self.prop_attn}
        return plain if self.output == "grid" else {**plain, "output": self.output}

    def __str__(self) -> str:
        return self.method.name if self.r is None or self.is_vanilla else f"{self.method.name} r={self.schedule}"

    @property
    def r(self) -> Any:
        """The amount as JSON spells it; None where the method decides the amounts itself."""
        return None if self.method.own_amounts else self.schedule.to_json()

    @property
    def options(self) -> dict[str, Any]:
        """All options of the method."""
        return {option.name: getattr(self.method, option.name) for option in fields(self.method)}

    @property
    def is_vanilla(self) -> bool:
        """Whether the model runs exactly as without catis."""
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
        return replace(self, schedule=self.schedule.bound(depth), windowed=windowed)

    def amount(self, block: int, num_patches: int, num_prefix: int) -> int:
        """Patch tokens that a block removes when `num_patches` enter it."""
        return 0 if block in self.windowed else self.method.amount(self.schedule, block, num_patches, num_prefix)

    def amounts(self, depth: int, num_patches: int, num_prefix: int) -> list[int]:
        """Patch tokens that each block removes, for an image of `num_patches` patches."""
        removed = []
        for block in range(depth):
            removed.append(self.amount(block, num_patches, num_prefix))
            num_patches -= removed[-1]
        return removed

    def token_counts(self, depth: int, num_patches: int, num_prefix: int) -> Sequence[int]:
        """Patch tokens that leave each block."""
        return [num_patches - gone for gone in accumulate(self.amounts(depth, num_patches, num_prefix))]


def _build(method: str | Method, options: Mapping[str, Any]) -> Method:
    if isinstance(method, Method):
        if options:
            kind = type(method).__name__
            raise ValueError(f"options {sorted(options)} with a built {kind}: set them when you build it")
        return method
    return _Vanilla() if method == VANILLA and not options else create_method(method, **options)
