"""What a model takes an image for, by name, before and after reduction."""

from __future__ import annotations

from collections.abc import Callable

from timm.data.imagenet_info import ImageNetInfo, infer_imagenet_subset
from torch import nn

from catis import zoo

__all__ = ["describe_change", "name_classes"]


def name_classes(model: nn.Module, zoo_model: bool = False) -> Callable[[int], str]:
    """How to call the classes of a model: by the zoo's names, a transformers config's, ImageNet's, or by number.

    Args:
        model: A classifier; timm knows ImageNet's classes by their number and the model's configuration.
        zoo_model: Whether it is one of `catis.zoo`, whose classes no configuration names.

    Example:
        >>> import timm
        >>> name_classes(timm.create_model("deit_tiny_patch16_224"))(281)
        'tabby'
    """
    labels = getattr(getattr(model, "config", None), "id2label", None)
    if zoo_model:
        return zoo.dataset("clean", n=1).classes.__getitem__
    if labels:
        return lambda number: str(labels.get(number, f"class {number}"))
    subset = infer_imagenet_subset(model)
    if not subset:
        return lambda number: f"class {number}"
    info = ImageNetInfo(subset)
    return lambda number: info.index_to_description(number).partition(",")[0]


def describe_change(before: str, after: str, truth: str | None = None) -> str:
    """What became of an image's class.

    Example:
        >>> describe_change("cup", "cup"), describe_change("cup", "key", "cup")
        ('cup before and after', 'cup, seen as cup before and as key after')
    """
    if truth is None:
        return f"{before} before and after" if before == after else f"{before} before, {after} after"
    if before != after:
        return f"{truth}, seen as {before} before and as {after} after"
    return f"{truth}, " + ("right before and after" if before == truth else f"seen as {before} before and after")
