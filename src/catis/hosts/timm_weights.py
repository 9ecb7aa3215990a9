"""Weights from a file, put on a model that fits them: its classes and its positions follow the file."""

from __future__ import annotations

from argparse import Namespace
from math import isqrt
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from timm.layers.pos_embed import resample_abs_pos_embed
from timm.models import clean_state_dict
from torch import Tensor, nn

PICKLED = (".pth", ".pt", ".bin", ".tar")
INSIDE = ("state_dict_ema", "model_ema", "state_dict", "model")
"""Where a training checkpoint keeps its weights; the average over training (EMA) goes first, as in timm."""


def read_weights(checkpoint: str | Path) -> dict[str, Tensor]:
    """The weights in a file, float32: .safetensors, or .pth and its like, which are read without running what they say.

    Example:
        >>> import tempfile, timm
        >>> file = tempfile.mkdtemp() + "/last.pth.tar"
        >>> torch.save({"epoch": 3, "state_dict": timm.create_model("test_vit").state_dict()}, file)
        >>> read_weights(file)["head.weight"].shape
        torch.Size([1000, 64])
    """
    path = Path(checkpoint)
    if path.suffix not in (".safetensors", *PICKLED):
        raise ValueError(f"checkpoint {path}: expected a .safetensors file, or one of {', '.join(PICKLED)}")
    if not path.is_file():
        raise ValueError(f"checkpoint {path}: no such file")
    try:
        content: Any = load_file(path) if path.suffix == ".safetensors" else _unpickle(path)
    except SafetensorError as error:
        raise ValueError(f"checkpoint {path} is not a safetensors file: {error}") from error
    except (UnpicklingError, RuntimeError, EOFError) as error:
        why = "it holds more than weights, and unpickling that can run code; save its state_dict as .safetensors"
        raise ValueError(f"checkpoint {path} cannot be read: {why}") from error
    inside = next((name for name in INSIDE if isinstance(content, dict) and isinstance(content.get(name), dict)), None)
    weights = clean_state_dict(content if inside is None else content[inside]) if isinstance(content, dict) else {}
    if not weights or not all(isinstance(value, Tensor) for value in weights.values()):
        raise ValueError(f"checkpoint {path} holds no weights by name, nor a state_dict of such")
    return {name: value.float() for name, value in weights.items()}


def _unpickle(path: Path) -> Any:
    with torch.serialization.safe_globals([Namespace]):  # the arguments in timm's training checkpoints
        return torch.load(path, map_location="cpu", weights_only=True)


def load_weights(model: Any, name: str, path: str | Path, weights: dict[str, Tensor], settings: dict[str, Any]) -> None:
    """Put weights on a timm model; the number of classes is the file's, positions are resampled to a size asked for."""
    classes = weights["head.weight"].shape[0] if "head.weight" in weights else 0
    if "num_classes" not in settings and hasattr(model, "reset_classifier") and model.num_classes != classes:
        model.reset_classifier(classes)
    try:
        model.load_state_dict(_at_size(model, path, weights, "img_size" in settings))
    except RuntimeError as error:
        raise ValueError(f"checkpoint {path} does not fit {name}: {error}") from error


def _at_size(model: nn.Module, path: str | Path, weights: dict[str, Tensor], asked: bool) -> dict[str, Tensor]:
    own, stored = getattr(model, "pos_embed", None), weights.get("pos_embed")
    if not isinstance(own, Tensor) or stored is None or own.ndim != 3 or own.shape[1] == stored.shape[1]:
        return weights
    embed: Any = model.patch_embed
    prefix = own.shape[1] - embed.num_patches
    side = isqrt(stored.shape[1] - prefix)
    if not asked:
        size = side * embed.patch_size[0]
        raise ValueError(
            f"checkpoint {path} has positions of {side} x {side} patches, the model {embed.grid_size[0]} x "
            f"{embed.grid_size[1]}: pass --img-size {size} (img_size={size}), or the size to resample them for"
        )
    resampled = resample_abs_pos_embed(stored, list(embed.grid_size), num_prefix_tokens=prefix)
    return {**weights, "pos_embed": resampled}
