"""transformers models by name, a directory that `save_pretrained` wrote or `org/name`: weights, and the processor."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import torch
from PIL.Image import Resampling
from safetensors import SafetensorError
from torch import nn

from catis.data.preprocessing import Preprocessing
from catis.errors import require

PROCESSORS = {"video_preprocessor_config.json": "AutoVideoProcessor", "preprocessor_config.json": "AutoImageProcessor"}


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
        saved_preprocessing(name, fetch=True)  # into the cache, where the handle looks
    result: nn.Module = model.eval()
    return result


def build_hf(name: str, pretrained: bool = False) -> nn.Module:
    """The model with random weights, on whichever device is the default one."""
    config, kind = _resolve(name, pretrained)
    result: nn.Module = kind(config)
    return result


def saved_preprocessing(name: str, *, frames: int | None = None, fetch: bool = False) -> Preprocessing | None:
    """What the processor says, in timm's terms; None if there is none.

    Args:
        name: The model's directory, or `org/name`, which is looked up in the local hub cache.
        frames: Per clip, for a video model.
        fetch: Ask the hub for what is not in the cache.
    """
    if not name or (not Path(name).is_dir() and name.count("/") != 1):
        return None  # made from a configuration, or from a directory that is not there any more
    import transformers
    from transformers.utils import cached_file

    for file, auto in PROCESSORS.items():
        if cached_file(
            name,
            file,
            local_files_only=not fetch,
            _raise_exceptions_for_gated_repo=False,
            _raise_exceptions_for_missing_entries=False,
            _raise_exceptions_for_connection_errors=False,
        ):
            return _translate(getattr(transformers, auto).from_pretrained(name, local_files_only=not fetch), frames)
    return None


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


def _translate(processor: Any, frames: int | None) -> Preprocessing:
    size = _pair(processor.size)
    crop = _pair(processor.crop_size) if getattr(processor, "do_center_crop", False) else size
    normal = processor.do_normalize
    return Preprocessing(
        size=crop,
        crop_pct=_share(crop[0], size[0]),
        mean=tuple(processor.image_mean) if normal else (0.0, 0.0, 0.0),
        std=tuple(processor.image_std) if normal else (1.0, 1.0, 1.0),
        interpolation=Resampling(processor.resample).name.lower(),
        crop_mode="center" if _value(processor.size, "shortest_edge") else "squash",
        frames=frames,
    )


def _share(crop: int, size: int) -> float:
    """The crop_pct of which timm makes `size` again, by rounding crop / crop_pct down."""
    share = crop / size
    return share if math.floor(crop / share) == size else math.nextafter(share, 0.0)


def _pair(size: Any) -> tuple[int, int]:
    short = _value(size, "shortest_edge")
    return (int(short), int(short)) if short else (int(_value(size, "height")), int(_value(size, "width")))


def _value(size: Any, key: str) -> Any:
    return size.get(key) if isinstance(size, dict) else getattr(size, key, None)
