"""The verbs: put a reduction on a model, take it off, or do both around a block of code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from torch import nn

from catis import hosts
from catis.core.method import Method
from catis.core.reduction import Reduction
from catis.core.schedule import RLike, Schedule
from catis.core.switches import Output
from catis.hosts.correction import Correction
from catis.hosts.handle import Handle
from catis.recipes import Recipe, RecipeLike, load_recipe

ModelT = TypeVar("ModelT", bound=nn.Module)


def apply(
    model: ModelT,
    method: str | Method | Reduction | None = None,
    *,
    r: RLike | None = None,
    schedule: str | Schedule | None = None,
    prop_attn: bool | None = None,
    output: Output | None = None,
    head_only: bool | None = None,
    budget: float | None = None,
    size_gain: float | Sequence[float] | None = None,
    soften: float | None = None,
    restore_norm: bool | None = None,
    input_size: int | None = None,
    recipe: RecipeLike | None = None,
    correction: Correction | None = None,
    **options: Any,
) -> ModelT:
    """Reduce the tokens of a Vision Transformer, in place. Nothing is changed if an argument is refused.

    Args:
        model: A supported timm or transformers model, or a module that holds exactly one.
        method: A name from `catis.list_methods()`, or a built method; "catis" by default, with a budget "cluster". Or a
            whole Reduction, in place of everything else.
        r: Patch tokens to remove per block: an int, a fraction in (0, 1) of those present, a list with one entry per
            block, or (r, inflect). No block removes more than half of its patch tokens.
        schedule: "constant", "decreasing" or "increasing" for an int r, or a Schedule in place of r.
        prop_attn: Add log(size) to the attention logits, so that a merged token counts as many; on by default.
        output: What a vision tower hands to the model around it: "grid" (default) or, where its projector takes tokens
            one by one, "tokens": those that are left, so that the language model reads fewer (docs/multimodal.md).
        head_only: The last block computes the prefix tokens alone, and removes nothing. The logits are the same to
            rounding; only for models whose head reads nothing else. Off by default; on with a budget, where exact.
        budget: Share of the vanilla model's multiply-adds, in place of r: 0.5 is half of them, within the cost of one
            token in one block. For an image of another size every block keeps the same share of the tokens.
        size_gain: Factor on log(size) in the attention logits, one number or one per block; the method's own by
            default, which is 1 for all but "cluster".
        soften: How much softer attention gets as tokens go: its logits are multiplied by 1 - soften times the share of
            the patch tokens that are gone. The method's own by default, which is 0 for all but "cluster".
        restore_norm: Whether a merged token gets the mean norm of its members: vectors that point apart have a short
            mean. The method's own by default, which is no for all but "cluster".
        input_size: Resize images to this side before the model sees them, so that there are fewer patches from the
            start; only for models that give one vector per image. As they come by default.
        recipe: A recipe in place of all of these: a folder or file that `catis.save_recipe` wrote, the name of one
            that `catis recipes` lists, or its content. Calibrated weights in it are put on too, until `remove`.
        correction: Calibrated weights for the reduction, as `catis.hosts.find(model).correction` gives them.
        options: Options of the method, such as tau=0.8.

    Returns:
        The same model, for chaining.

    Raises:
        UnsupportedModelError: A part of the model cannot be reduced rightly.
        ValueError: A bad method, amount or option, or calibrated weights that belong to other weights or to another
            reduction.

    Example:
        >>> import catis, timm, torch
        >>> model = timm.create_model("vit_tiny_patch16_224").eval()
        >>> model = catis.apply(model, "catis", r=13)
        >>> model(torch.zeros(2, 3, 224, 224)).shape
        torch.Size([2, 1000])
    """
    handle = hosts.find(model)
    wanted = wanted_recipe(
        method, recipe=recipe, correction=correction, r=r, schedule=schedule, prop_attn=prop_attn, output=output,
        head_only=head_only, budget=budget, size_gain=size_gain, soften=soften, restore_norm=restore_norm,
        input_size=input_size, **options,
    )  # fmt: skip
    handle.install(*_fitting(handle, wanted))
    return model


def _fitting(handle: Handle, recipe: Recipe) -> tuple[Reduction, Correction | None]:
    """What to install: the reduction bound to the model, and calibrated weights that belong to both."""
    try:
        reduction = handle.bind(recipe.reduction)
        if recipe.correction is not None:
            recipe.correction.check(reduction, handle.vanilla_weights)
    except ValueError as error:
        if not recipe.where:
            raise
        raise ValueError(f"{recipe.where}: {error}") from error
    return reduction, recipe.correction


def remove(model: ModelT) -> ModelT:
    """Undo `apply`: the model is bit for bit the one it was. A model that is not reduced is left alone.

    Example:
        >>> import catis, timm
        >>> model = catis.apply(timm.create_model("vit_tiny_patch16_224"), "tome", r=8)
        >>> type(catis.remove(model)).__name__
        'VisionTransformer'
    """
    handle = hosts.find(model)
    handle.uninstall()
    return model


@contextmanager
def applied(model: ModelT, method: str | Method | Reduction | None = None, **arguments: Any) -> Iterator[ModelT]:
    """`apply` for the length of a with-block; what was on the model before comes back, also after an error.

    Example:
        >>> import catis, timm
        >>> model = timm.create_model("vit_tiny_patch16_224")
        >>> with catis.applied(model, "tome", r=8):
        ...     round(catis.gmacs(model), 2)
        0.92
        >>> round(catis.gmacs(model), 2)
        1.25
    """
    handle = hosts.find(model)
    with handle.installed(*_fitting(handle, wanted_recipe(method, **arguments))):
        yield model


def wanted_reduction(method: str | Method | Reduction | None = None, **arguments: Any) -> Reduction:
    """The reduction that the arguments of `apply` describe."""
    return wanted_recipe(method, **arguments).reduction


def wanted_recipe(
    method: str | Method | Reduction | None = None,
    *,
    recipe: RecipeLike | None = None,
    correction: Correction | None = None,
    **arguments: Any,
) -> Recipe:
    """The reduction and the calibrated weights that the arguments of `apply` describe.

    Raises:
        ValueError: A bad method, amount or option, or something beside a recipe or a Reduction.
    """
    if recipe is not None:
        _refuse_beside("recipe=", "a recipe", method=method, correction=correction, **arguments)
        return load_recipe(recipe)
    if isinstance(method, Reduction):
        _refuse_beside("a Reduction", "a Reduction", **arguments)
        return Recipe(method, correction=correction)
    given = {name: value for name, value in arguments.items() if value is not None}
    return Recipe(Reduction.of(method, **given), correction=correction)


def _refuse_beside(what: str, which: str, **arguments: Any) -> None:
    given = [name for name, value in arguments.items() if value is not None]
    if given:
        raise ValueError(f"{what} was given together with {', '.join(given)}: {which} says all of it, so edit it")
