"""Clean and corrupted images side by side: what every look at rho_s needs."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor, nn


def paired_batches(
    model: nn.Module, clean: Tensor, damaged: Tensor, batch_size: int = 16
) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches of prepared images and of the same images corrupted, on the model's device and in its dtype.

    Args:
        model: The model that will see them.
        clean: (n, 3, H, W) prepared images.
        damaged: The same images, corrupted and then prepared.
        batch_size: Images per batch; memory grows with it.

    Raises:
        ValueError: No images, or two tensors that cannot be the same images.

    Example:
        >>> import torch
        >>> images = torch.zeros(3, 3, 8, 8)
        >>> [len(whole) for whole, _ in paired_batches(nn.Linear(1, 1), images, images, batch_size=2)]
        [2, 1]
    """
    if clean.ndim != 4 or clean.shape != damaged.shape or len(clean) == 0:
        shapes = f"clean {tuple(clean.shape)} and damaged {tuple(damaged.shape)}"
        raise ValueError(f"{shapes}: expected two equal (n, 3, H, W) with n >= 1, the same images in the same order")
    weight = next(model.parameters())
    for start in range(0, len(clean), batch_size):
        one, other = (images[start : start + batch_size].to(weight.device, weight.dtype) for images in (clean, damaged))
        yield one, other
