"""What a model takes an image for, by name, before and after reduction."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from catis import hosts


def name_classes(model: nn.Module) -> Callable[[int], str]:
    """How to call the classes of a model: by its own labels, ImageNet's, or by number.

    Example:
        >>> import timm
        >>> name_classes(timm.create_model("deit_tiny_patch16_224"))(281)
        'tabby'
    """
    labels = hosts.find(model).labels
    return lambda number: labels[number] if labels else f"class {number}"


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
