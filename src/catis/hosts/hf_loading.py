"""transformers models by name: a directory that `save_pretrained` wrote, or `org/name` on the hub."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import nn

from catis.errors import require


def is_hf_model(name: str) -> bool:
    """Whether a name is that of a transformers model: a directory with its config.json, or of the form `org/name`.

    timm's own prefixes, `hf-hub:` and `local-dir:`, stay timm's.

    Example:
        >>> is_hf_model("MCG-NJU/videomae-base-finetuned-kinetics"), is_hf_model("vit_tiny_patch16_224")
        (True, False)
    """
    file = Path(name) / "config.json"
    if Path(name).exists():
        return file.is_file() and "model_type" in json.loads(file.read_text())
    return name.count("/") == 1 and ":" not in name and not name.startswith((".", "/", "~"))


def load_hf(name: str, pretrained: bool = False) -> nn.Module:
    """The model in eval mode and float32, of the class it was saved as, with all of its weights.

    Args:
        name: A directory, or `org/name`, which is taken from the local hub cache.
        pretrained: Let transformers fetch what is not in the cache.

    Raises:
        MissingExtraError: transformers is not installed.
        ValueError: There is no such model, transformers has no such class, or weights are missing.
    """
    config, kind = _resolve(name, pretrained)
    # No pickled weights: they can run code.
    settings = {"config": config, "local_files_only": not pretrained, "use_safetensors": True}
    try:
        model, loading = kind.from_pretrained(name, dtype=torch.float32, output_loading_info=True, **settings)
    except (OSError, RuntimeError, SafetensorError) as error:
        raise ValueError(f"transformers cannot load {name!r}: {error}") from error
    if loading["missing_keys"]:
        raise ValueError(f"{name}: no weights for {', '.join(sorted(loading['missing_keys'])[:5])}")
    if pretrained:
        from catis.hosts.hf_processor import saved_preprocessing

        saved_preprocessing(name, fetch=True)  # into the cache, where the handle looks
    result: nn.Module = model.eval()
    return result


def build_hf(name: str, pretrained: bool = False) -> nn.Module:
    """The model with random weights, on whichever device is the default one."""
    config, kind = _resolve(name, pretrained)
    result: nn.Module = kind(config)
    return result


def _resolve(name: str, pretrained: bool) -> tuple[Any, Any]:
    """Configuration and class."""
    require(f"{name}, a transformers model,", "transformers", "transformers")
    import transformers

    try:
        config = transformers.AutoConfig.from_pretrained(name, local_files_only=not pretrained)
    except (OSError, ValueError) as error:
        hint = "" if pretrained or Path(name).exists() else f"; `hf download {name}` puts it in the local cache"
        raise ValueError(f"transformers cannot load {name!r}: {str(error).splitlines()[0]}{hint}") from error
    kind = getattr(transformers, (config.architectures or ["?"])[0], None)
    if kind is None:
        raise ValueError(f"{name}: architectures {config.architectures} of its config.json are not in transformers")
    return config, kind
