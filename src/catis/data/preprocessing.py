"""How a model wants its images: resized, cropped and normalised, as timm prepares them for evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from timm.data.transforms_factory import create_transform
from torch import Tensor

Pixels = NDArray[np.uint8]


@dataclass(frozen=True)
class Preprocessing:
    """How a model wants its images or frames: shorter side to size / crop_pct, centre crop, normalised.

    `catis.hosts.find(model).preprocessing()` gives that of a model.

    Attributes:
        size: Height and width of the input.
        crop_pct: Share of the resized image that the crop keeps.
        mean: Per channel, on a 0..1 scale.
        std: Per channel, on a 0..1 scale.
        interpolation: "bicubic", "bilinear" or another of timm's names.
        crop_mode: "center", or timm's "squash" (both sides to size / crop_pct) or "border".
        frames: Per clip, for a video model; None for images.
    """

    size: tuple[int, int] = (224, 224)
    crop_pct: float = 0.875
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    std: tuple[float, float, float] = (0.229, 0.224, 0.225)
    interpolation: str = "bicubic"
    crop_mode: str = "center"
    frames: int | None = None

    def pixels(self, image: Image.Image) -> Pixels:
        """Resize and crop with timm's own evaluation transform: (H, W, 3) bytes, so that corruptions come after."""
        chw: Pixels = np.asarray(self._transform()(image.convert("RGB")))
        return np.ascontiguousarray(chw.transpose(1, 2, 0))

    def normalise(self, pixels: Sequence[Pixels] | Pixels, device: torch.device | str = "cpu") -> Tensor:
        """(B, 3, H, W) float input of (H, W, 3) bytes; (B, T, 3, H, W) of clips."""
        if self.frames is not None and len(pixels) and pixels[0].ndim == 3:
            raise ValueError(f"a model of clips of {self.frames} frames was given single images: use `catis eval`")
        stacked = torch.from_numpy(np.array(pixels)).to(device).movedim(-1, -3).float()
        mean, std = (stacked.new_tensor(values)[:, None, None] for values in (self.mean, self.std))
        return stacked.div_(255).sub_(mean).div_(std)  # in place: fresh memory for each step costs more than the step

    def _transform(self) -> Any:
        return create_transform(
            (3, *self.size),
            is_training=False,
            normalize=False,
            crop_pct=self.crop_pct,
            interpolation=self.interpolation,
            crop_mode=self.crop_mode,
        )
