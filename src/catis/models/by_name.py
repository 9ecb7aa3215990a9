"""Models by name, as the commands take them: timm's, the zoo's, transformers', with which weights."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import Any

import timm
import torch
from torch import nn

from catis.hosts.hf_loading import build_hf, is_hf_model, load_hf
from catis.hosts.timm_weights import load_weights, read_weights
from catis.zoo.models import build as build_zoo
from catis.zoo.models import list_models as list_zoo
from catis.zoo.models import load as load_zoo

_ZOO, _HF = "a zoo model of fixed shape", "a transformers model with its own weights"


def load_model(
    name: str,
    checkpoint: str | Path | None = None,
    pretrained: bool = False,
    **settings: Any,
) -> nn.Module:
    """A model in eval mode: one of the zoo or of transformers with its weights, or timm's with those asked for.

    Nothing goes to the network unless `pretrained` is set.

    Args:
        name: A timm name, with a tag or without, a zoo name such as "tiny-12", or a transformers model: a directory
            that `save_pretrained` wrote, or `org/name`.
        checkpoint: A file with the model's weights: .safetensors, or .pth and its like (timm's training checkpoints,
            whose average over training goes first). The number of classes is the file's.
        pretrained: Let timm or transformers fetch weights from the hub.
        settings: Passed on to timm.create_model, such as img_size=384.

    Raises:
        ValueError: No such model, or a checkpoint that is not one of this model.

    Example:
        >>> type(load_model("vit_tiny_patch16_224")).__name__
        'VisionTransformer'
        >>> load_model("vit_tiny_patch16_225")
        Traceback (most recent call last):
        ...
        ValueError: model 'vit_tiny_patch16_225' is neither in timm nor in the zoo. Close to it: ...
    """
    if checkpoint is not None and pretrained:
        raise ValueError(
            f"checkpoint={str(checkpoint)!r} and pretrained=True: the weights can come from one place only"
        )
    if is_zoo_model(name) and checkpoint is None:
        _refuse(name, _ZOO, settings)
        return load_zoo(name)
    if is_hf_model(name):
        _refuse(name, _HF, {"checkpoint": checkpoint} if checkpoint is not None else settings)
        return load_hf(name, pretrained)
    weights = None if checkpoint is None else read_weights(checkpoint)
    model = build_model(name, pretrained=pretrained, **settings)
    if checkpoint is not None and weights is not None:
        load_weights(model, name, checkpoint, weights, settings)
    return model.eval()


def build_model(name: str, *, device: str = "cpu", pretrained: bool = False, **settings: Any) -> nn.Module:
    """A model without weights of ours: random ones, or timm's own; none at all on the meta device.

    Example:
        >>> next(build_model("vit_large_patch16_224", device="meta").parameters()).is_meta
        True
    """
    with torch.device(device):
        if is_zoo_model(name):
            _refuse(name, _ZOO, settings)
            return build_zoo(name)
        if is_hf_model(name):
            _refuse(name, _HF, settings)
            return build_hf(name, pretrained)
        if not (timm.is_model(name) or name.startswith(("hf-hub:", "local-dir:"))):
            raise ValueError(_unknown(name))
        try:
            model: nn.Module = timm.create_model(name, pretrained=pretrained, **settings)
        except (RuntimeError, TypeError) as error:  # an unknown tag, no weights to fetch, a setting it does not have
            raise ValueError(f"timm cannot build {name!r}: {error}") from error
    if getattr(getattr(model, "patch_embed", None), "num_patches", None) == 0:
        raise ValueError(f"{name} with {settings}: the image is smaller than one patch of the model")
    return model


def is_zoo_model(name: str) -> bool:
    """Whether the name is one of the zoo's."""
    return name in list_zoo()


def _refuse(name: str, kind: str, settings: dict[str, Any]) -> None:
    if settings:
        raise ValueError(f"{name} is {kind}; {', '.join(sorted(settings))} cannot be set")


def _unknown(name: str) -> str:
    arch = name.split(".")[0]
    near = get_close_matches(arch, [*list_zoo(), *timm.list_models()], n=5) or list_zoo()
    return f"model {name!r} is neither in timm nor in the zoo. Close to it: {', '.join(near)}"
