"""The verbs: put a reduction on a model, take it off, or do both around a block of code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from torch import nn

from catis.core.method import Method, Reduction
from catis.core.schedule import RLike, Schedule
from catis.hosts import dispatch
from catis.hosts.host import ModelFacts
from catis.recipe import RecipeLike, load_recipe
from catis.registry import create_method

__all__ = ["applied", "apply", "build_reduction", "remove"]

ModelT = TypeVar("ModelT", bound=nn.Module)


def apply(
    model: ModelT,
    method: str | Method | None = None,
    *,
    r: RLike | None = None,
    schedule: str | Schedule | None = None,
    prop_attn: bool | None = None,
    recipe: RecipeLike | None = None,
    **options: Any,
) -> ModelT:
    """Reduce the tokens of a Vision Transformer, in place. Nothing is changed if an argument is refused.

    Args:
        model: A supported timm or transformers model, or a module that holds exactly one.
        method: A name from `catis.list_methods()`, or a built method; "catis" by default.
        r: Patch tokens to remove per block: an int, a fraction in (0, 1) of those present, a list with one entry per
            block, or (r, inflect). No block removes more than half of its patch tokens.
        schedule: "constant", "decreasing" or "increasing" for an int r, or a Schedule in place of r.
        prop_attn: Add log(size) to the attention logits, so that a merged token counts as many; on by default.
        recipe: A recipe in place of all of these: a file that `catis.save_recipe` or `catis tune` wrote, a directory
            that holds one, or its content.
        options: Options of the method, such as tau=0.8.

    Returns:
        The same model, for chaining.

    Raises:
        UnsupportedModelError: A part of the model cannot be reduced rightly.
        ValueError: A bad method, amount or option.

    Example:
        >>> import catis, timm, torch
        >>> model = timm.create_model("vit_tiny_patch16_224").eval()
        >>> model = catis.apply(model, "catis", r=13)
        >>> model(torch.zeros(2, 3, 224, 224)).shape
        torch.Size([2, 1000])
    """
    target, host = dispatch.find(model)
    if recipe is not None:
        _refuse_beside_recipe(method=method, r=r, schedule=schedule, prop_attn=prop_attn, **options)
        wanted = load_recipe(recipe)
        method, r, prop_attn, options = wanted.method, wanted.r, wanted.prop_attn, dict(wanted.options)
    settings = build_reduction(host.facts(target), method or "catis", r, schedule, prop_attn is not False, options)
    host.install(target, settings)
    return model


def remove(model: ModelT) -> ModelT:
    """Undo `apply`: the model is bit for bit the one it was. A model that is not reduced is left alone.

    Example:
        >>> import catis, timm
        >>> model = catis.apply(timm.create_model("vit_tiny_patch16_224"), "tome", r=8)
        >>> type(catis.remove(model)).__name__
        'VisionTransformer'
    """
    target, host = dispatch.find(model)
    host.uninstall(target)
    return model


@contextmanager
def applied(model: ModelT, method: str | Method | None = None, **arguments: Any) -> Iterator[ModelT]:
    """`apply` for the length of a with-block; what was on the model before comes back, also after an error.

    Example:
        >>> import catis, timm
        >>> model = timm.create_model("vit_tiny_patch16_224")
        >>> with catis.applied(model, "tome", r=8):
        ...     reduced = type(model).__name__
        >>> reduced, type(model).__name__
        ('ReducedVisionTransformer', 'VisionTransformer')
    """
    target, host = dispatch.find(model)
    before = host.reduction(target)
    apply(model, method, **arguments)
    try:
        yield model
    finally:
        host.uninstall(target)
        if before is not None:
            host.install(target, before)


def build_reduction(
    facts: ModelFacts,
    method: str | Method,
    r: RLike | None,
    schedule: str | Schedule | None,
    prop_attn: bool,
    options: dict[str, Any],
) -> Reduction:
    """Check everything against the model's facts; touches nothing."""
    built = _build_method(method, options)
    built.check(facts.num_prefix, facts.depth)
    if built.own_amounts:
        if r is not None or schedule is not None:
            raise ValueError(f"r={r!r}, schedule={schedule!r}: {built.name} with a ratio decides the amounts itself")
        r = 0
    if isinstance(schedule, Schedule):
        if r is not None:
            raise ValueError(f"r={r!r} and schedule={schedule!r} were given; one of them says how many tokens go")
        r, schedule = schedule, None  # type: ignore[assignment]
    return Reduction(built, Schedule.parse(r, facts.depth, schedule), bool(prop_attn))


def _refuse_beside_recipe(**arguments: Any) -> None:
    given = [name for name, value in arguments.items() if value is not None]
    if given:
        raise ValueError(f"recipe= was given together with {', '.join(given)}: a recipe says all of it, so edit it")


def _build_method(method: str | Method, options: dict[str, Any]) -> Method:
    if not isinstance(method, Method):
        return create_method(method, **options)
    if options:
        raise ValueError(f"options {sorted(options)} with a built {type(method).__name__}: set them when you build it")
    return method
