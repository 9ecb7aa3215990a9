"""`output="tokens"`: a language model that reads the tokens a vision tower has left, with a shorter prompt.

A processor writes one placeholder per patch into the prompt. The whole model gets a subclass whose `forward` and
`generate` keep as many of them as tokens arrive; everything else of the model is its own. Positions follow, since the
language model counts what it reads.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple

from torch import Tensor, nn

from catis.core.reduction import Reduction
from catis.hosts.hf_cost import count_patches
from catis.hosts.hf_families import family_of
from catis.hosts.swap import base_class, reduced_class, set_class

_TAKERS = ("LlavaForConditionalGeneration", "LlavaModel", "PaliGemmaForConditionalGeneration", "PaliGemmaModel")
_PER_TOKEN = ("input_ids", "inputs", "attention_mask", "labels", "token_type_ids", "mm_token_type_ids")
_IN_THE_WAY = ("position_ids", "inputs_embeds")


class Counts(NamedTuple):
    """Placeholders of one image: as the processor writes them, and as tokens arrive."""

    full: int
    left: int


def refuse_grid_readers(model: nn.Module) -> None:
    """Raise for a model that cannot take fewer tokens."""
    if base_class(model).__name__ not in _TAKERS:
        raise ValueError(
            f"output='tokens': {type(model).__name__} cannot take fewer image tokens: this is for "
            f"{', '.join(_TAKERS)}, whose projectors read tokens one by one; others join or pool neighbours of the "
            "full grid, so use output='grid'"
        )


def shorten_prompts(model: nn.Module, on: bool) -> None:
    """Put the shorter prompt on a whole model, or take it off."""
    base = base_class(model)
    set_class(model, reduced_class(base, ShorterPrompt) if on else base)


class ShorterPrompt:
    """What the subclass of a whole model overrides."""

    @staticmethod
    def overrides(base: Any) -> dict[str, Any]:
        """`forward`, and `generate` where the model has it."""
        names = [name for name in ("forward", "generate") if hasattr(base, name)]
        return {name: _with_shorter_prompt(getattr(base, name)) for name in names}


def _with_shorter_prompt(vanilla: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(vanilla)

    @wraps(vanilla)
    def method(model: Any, *args: Any, **kwargs: Any) -> Any:
        given = signature.bind_partial(model, *args, **kwargs).arguments
        model, rest = given.pop(next(iter(signature.parameters))), given.pop("kwargs", {})
        return vanilla(model, **_shortened(model, {**given, **rest}))

    return method


def _shortened(model: Any, call: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call, with as many placeholders as tokens will arrive."""
    tower = getattr(model, "model", model).vision_tower
    reduction: Reduction | None = vars(tower).get("catis_reduction")
    images = call.get("pixel_values")
    if images is None or reduction is None or reduction.is_vanilla or reduction.output != "tokens":
        return call
    for name in _IN_THE_WAY:
        if call.get(name) is not None:
            raise ValueError(f"{name} was given, but output='tokens' makes the prompt shorter: leave it out")
    ids = call.get("input_ids", call.get("inputs"))
    assert ids is not None, "a call with images needs a prompt"
    keep = _kept(ids == model.config.image_token_id, len(images), _counts(model, tower, reduction, images, call))
    if keep is None:
        return call
    width = int(keep[0].sum())
    shorter = {name: call[name][keep].view(len(ids), width) for name in _PER_TOKEN if call.get(name) is not None}
    return {**call, **shorter}


def _counts(model: Any, tower: Any, reduction: Reduction, images: Tensor, call: dict[str, Any]) -> Counts:
    family = family_of(type(tower))
    assert family is not None
    depth, prefix = len(family.blocks_of(tower)), family.num_prefix(tower)
    patches = count_patches(tower, images.shape[-2:])
    layer, with_prefix = _feature_layer(model, call, depth)
    left = [patches, *reduction.token_counts(depth, patches, prefix)][layer]
    extra = prefix if with_prefix else 0
    return Counts(patches + extra, left + extra)


def _feature_layer(model: Any, call: dict[str, Any], depth: int) -> tuple[int, bool]:
    """Which hidden state the projector reads, and whether with the prefix: LLaVA says it, PaliGemma reads the last."""
    settings = {}
    for name in ("vision_feature_layer", "vision_feature_select_strategy"):
        asked = call.get(name)
        settings[name] = getattr(model.config, name, None) if asked is None else asked
    layer = settings["vision_feature_layer"]
    if isinstance(layer, (list, tuple)):
        raise ValueError(
            f"vision_feature_layer={list(layer)}: several layers have different numbers of tokens; use output='grid'"
        )
    place = depth if layer is None else int(layer)
    return place % (depth + 1), settings["vision_feature_select_strategy"] == "full"


def _kept(placeholder: Tensor, images: int, counts: Counts) -> Tensor | None:
    """(B, T) which tokens of the prompt stay; None if it is short enough already."""
    places = int(placeholder.sum())
    if places == images * counts.left:
        return None
    if places != images * counts.full:
        raise ValueError(
            f"{places} image tokens for {images} images: expected {counts.full} each, as the processor writes them, or "
            f"{counts.left}, as many as the vision tower leaves"
        )
    place = placeholder.long().cumsum(1) - 1
    keep = ~placeholder | (place % counts.full < counts.left)
    if len(set(keep.sum(1).tolist())) > 1:
        raise ValueError("texts with different numbers of images become of different length: pass one text at a time")
    return keep
