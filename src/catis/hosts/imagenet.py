"""ImageNet's classes, as timm lists them: those of a model by their number, and those of the sets that have fewer."""

from __future__ import annotations

from importlib.resources import files

from timm.data.imagenet_info import ImageNetInfo, infer_imagenet_subset

_OWN = {"imagenet-a": "imagenet_a_synsets.txt", "imagenet-r": "imagenet_r_synsets.txt"}
"""Data sets that have classes of their own, and timm's file with these."""


def imagenet_info(num_classes: int) -> ImageNetInfo | None:
    """What timm knows of the ImageNet with so many classes; None if there is none."""
    subset = infer_imagenet_subset({"num_classes": num_classes})
    return None if subset is None else ImageNetInfo(subset)


def synsets(num_classes: int) -> list[str]:
    """WordNet ids of the classes of an ImageNet classifier, in order; empty if no ImageNet has so many.

    Example:
        >>> synsets(1000)[:2], synsets(7)
        (['n01440764', 'n01443537'], [])
    """
    known = imagenet_info(num_classes)
    return [] if known is None else list(known.label_names())  # type: ignore[no-untyped-call]


def own_synsets(data: str) -> list[str] | None:
    """WordNet ids of a data set that has fewer classes than ImageNet; None for any other.

    Example:
        >>> len(own_synsets("imagenet-a")), own_synsets("imagenet")
        (200, None)
    """
    if data not in _OWN:
        return None
    return (files("timm.data") / "_info" / _OWN[data]).read_text(encoding="utf-8").split()
