"""The transformers classifiers that read prefix tokens alone, and how they tell the model inside them so.

Whoever calls the model inside a classifier himself reads all of its last tokens. So the question "who reads the
prefix alone?" belongs to the call: a classifier under `head_only` passes one more keyword on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

from torch import nn

from catis.hosts.hf_model import PREFIX_ONLY
from catis.hosts.swap import with_the_same_weights

_READ_PREFIX = (
    ("transformers.models.vit.modeling_vit", "ViTForImageClassification", "vit"),
    ("transformers.models.deit.modeling_deit", "DeiTForImageClassification", "deit"),
    ("transformers.models.deit.modeling_deit", "DeiTForImageClassificationWithTeacher", "deit"),
)
"""Module, class and attribute of the model inside. Others return every token, or average them (Dinov2, CLIP)."""


def vit_in(kind: type[Any]) -> str | None:
    """Attribute of the model inside a classifier that reads prefix tokens alone; None for any other class."""
    for module, name, inside in _READ_PREFIX:
        known = getattr(sys.modules.get(module), name, None)
        if known is not None and issubclass(kind, known) and kind.forward is known.forward:
            return inside
    return None


def reads_patches(model: nn.Module, vit: nn.Module, kind: type[Any]) -> str:
    """Why patch tokens are needed after the last block; empty for a classifier that reads prefix tokens alone."""
    if model is vit:
        return f"{kind.__name__} returns all of its last tokens"
    if vit_in(kind) is None:
        names = ", ".join(name for _, name, _ in _READ_PREFIX)
        return f"{kind.__name__} is not among the classifiers that read prefix tokens alone: {names}"
    return ""


def telling(forward: Callable[..., Any], inside: str) -> Callable[..., Any]:
    """The forward of a classifier, which tells a model under `head_only` that it will read prefix tokens alone."""

    @wraps(forward)
    def tell(model: Any, *args: Any, **kwargs: Any) -> Any:
        vit = getattr(model, inside)
        reduction = getattr(vit, "catis_reduction", None)
        told = {} if reduction is None or not reduction.head_only else {PREFIX_ONLY: True}
        return with_the_same_weights(vit, forward, model, *args, **kwargs, **told)

    return tell
