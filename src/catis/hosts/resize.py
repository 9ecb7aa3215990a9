"""Feeding a model a smaller image than it was given, inside its forward pass."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from catis.core.reduction import Reduction


def resized(images: Tensor, side: int) -> Tensor:
    """(B, 3, side, side) images, as an image library would resize them: bicubic, smoothed before they shrink.

    Example:
        >>> import torch
        >>> resized(torch.zeros(1, 3, 8, 8), 4).shape
        torch.Size([1, 3, 4, 4])
    """
    return F.interpolate(images, (side, side), mode="bicubic", antialias=True, align_corners=False)


def refuse_grid(reduction: Reduction) -> None:
    """Refuse a dense output under another input size, whose grid is not the one that the caller knows.

    Raises:
        ValueError: The reduction resizes images.
    """
    if reduction.input_size is not None:
        raise ValueError(
            f"the model resizes its images to {reduction.input_size} pixels, so its features are not on the grid of "
            "these images: apply without input_size (catis tune --without size)"
        )
