"""How a transformers model wants its images: the image or video processor that lies beside its weights."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from PIL.Image import Resampling

from catis.data.preprocessing import Preprocessing

PROCESSORS = {"video_preprocessor_config.json": "AutoVideoProcessor", "preprocessor_config.json": "AutoImageProcessor"}


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
