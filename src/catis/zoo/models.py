"""The zoo's models: ordinary timm Vision Transformers with weights that ship inside the package."""

from __future__ import annotations

import hashlib
import json
from importlib.resources import files
from typing import Any

import torch
from safetensors.torch import load as load_tensors
from timm.models.vision_transformer import VisionTransformer

from catis.errors import CatisError
from catis.zoo.objects import CLASSES
from catis.zoo.scene import SIZE

MEAN = (0.45, 0.45, 0.45)
STD = (0.25, 0.25, 0.25)
"""Normalisation of the models' input, per channel, on a 0..1 scale. The set has no preferred colour."""

DEPTHS = {"tiny-6": 6, "tiny-12": 12, "tiny-18": 18, "tiny-24": 24, "tiny-12-gap": 12}


class WeightsError(CatisError):
    """A weights file of the package is missing or damaged."""


def build(name: str) -> VisionTransformer:
    """Make a zoo model with fresh random weights.

    Args:
        name: a key of ``DEPTHS``.
    """
    gap = name.endswith("-gap")
    model = VisionTransformer(
        img_size=SIZE, patch_size=8, num_classes=len(CLASSES), embed_dim=96, depth=DEPTHS[name], num_heads=3,
        mlp_ratio=4, class_token=not gap, global_pool="avg" if gap else "token",
    )  # fmt: skip
    # timm's own place for how images are prepared and classes called: everything that asks timm gets it right
    config = {"input_size": (3, SIZE, SIZE), "crop_pct": 1.0, "mean": MEAN, "std": STD, "label_names": CLASSES}
    model.pretrained_cfg = config  # type: ignore[assignment]
    return model


def _read(file: str) -> bytes:
    """Bytes of a file in the package's weights folder."""
    where = files("catis.zoo") / "weights" / file
    try:
        return where.read_bytes()
    except OSError as error:
        raise WeightsError(
            f"cannot read {where}: {error.strerror}. It ships with catis: pip install --force-reinstall catis"
        ) from error


def cards() -> dict[str, dict[str, Any]]:
    """Model cards by name: file, sha256, accuracy per view with n, recipe, seconds of training."""
    loaded: dict[str, dict[str, Any]] = json.loads(_read("cards.json"))
    return loaded


def list_models() -> list[str]:
    """Names that ``load`` accepts, shallow to deep."""
    shipped = cards()
    return [name for name in DEPTHS if name in shipped]


def load(name: str) -> VisionTransformer:
    """Load a trained model, float32, in eval mode.

    Args:
        name: one of ``list_models()``.

    Raises:
        ValueError: there is no such model.
        WeightsError: its file is missing or is not the one that was shipped.
    """
    names = list_models()
    if name not in names:
        raise ValueError(f"zoo model {name!r}: expected one of {', '.join(names)}")
    card = cards()[name]
    data = _read(card["file"])
    digest = hashlib.sha256(data).hexdigest()
    if digest != card["sha256"]:
        raise WeightsError(
            f"{files('catis.zoo') / 'weights' / card['file']} is damaged: expected sha256 {card['sha256']}, "
            f"found {digest} ({len(data)} bytes). Install it again: pip install --force-reinstall catis"
        )
    model = build(name)
    model.load_state_dict({key: value.to(torch.float32) for key, value in load_tensors(data).items()})
    return model.eval()
