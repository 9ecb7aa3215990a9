"""Models that people ask for and catis refuses, with the reason; by class name, so that none is imported."""

from __future__ import annotations

from torch import nn

_GRID = "attention in windows of a fixed grid: tokens cannot leave it"
_PAIRS = "a bias for every pair of positions of the full grid"
_PYRAMID = "convolutions between its stages need the full grid"
_MASKS = "its blocks carry masks of their own from block to block"

REFUSED = {
    "timm": {
        "SwinTransformer": _GRID,
        "SwinTransformerV2": _GRID,
        "MaxxVit": _GRID,
        "VisionTransformerSAM": _GRID,
        "Hiera": "attention in windows that shrink with the grid",
        "Beit": _PAIRS,
        "VisionTransformerRelPos": _PAIRS,
        "PyramidVisionTransformerV2": _PYRAMID,
        "NaFlexVit": _MASKS,
        "Cait": "its last blocks attend from the CLS token alone",
        "Xcit": "attention between channels, not tokens",
    },
    "transformers": {
        "SwinModel": _GRID,
        "Swinv2Model": _GRID,
        "SamVisionEncoder": _GRID,
        "BeitModel": _PAIRS,
        "TimesformerModel": "divided attention: over space and over time in turn, on a fixed grid of frames",
        "DPTModel": "a read-out in the middle of its own encoder; a DPT with a DINOv2 backbone is taken",
        "PixtralVisionModel": "images packed into one sequence under one mask of the full length",
        "SegformerModel": _PYRAMID,
        "HieraModel": "attention in windows that shrink with the grid",
    },
}
"""Library -> class -> why."""


def reason(model: nn.Module) -> str | None:
    """The first refused class in a model, with the reason; None if there is none that we have a word on.

    Example:
        >>> import timm
        >>> reason(timm.create_model("beit_base_patch16_224"))
        'timm Beit: a bias for every pair of positions of the full grid'
    """
    for module in model.modules():
        for base in type(module).__mro__:
            library = base.__module__.partition(".")[0]
            if base.__name__ in REFUSED.get(library, {}):
                return f"{library} {base.__name__}: {REFUSED[library][base.__name__]}"
    return None
