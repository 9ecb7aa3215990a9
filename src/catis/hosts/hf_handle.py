"""The host of transformers: the vision models of `hf_families`, bare or inside a larger model.

Whoever calls the model inside a classifier himself reads all of its last tokens. So the question "who reads the
prefix alone?" belongs to the call: a classifier under `head_only` passes one more keyword on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

from torch import nn
from transformers.utils import can_return_tuple

from catis.core.block import Recorder
from catis.core.reduction import Reduction
from catis.data.preprocessing import Preprocessing
from catis.errors import UnsupportedModelError
from catis.hosts import hf_check, hf_cost, hf_model
from catis.hosts.correction import Correction
from catis.hosts.cost import BlockLinears, ModelCost, ModelFacts, linears_in
from catis.hosts.handle import Handle
from catis.hosts.hf_cost import image_size
from catis.hosts.hf_families import family_of
from catis.hosts.hf_family import Family
from catis.hosts.hf_loading import saved_preprocessing
from catis.hosts.swap import (
    Reduced,
    base_class,
    reduced_class,
    set_class,
    vanilla_unless_reduced,
    with_the_same_weights,
)
from catis.hosts.tower_tokens import refuse_grid_readers, shorten_prompts

_READ_PREFIX = (
    ("transformers.models.vit.modeling_vit", "ViTForImageClassification", "vit"),
    ("transformers.models.deit.modeling_deit", "DeiTForImageClassification", "deit"),
    ("transformers.models.deit.modeling_deit", "DeiTForImageClassificationWithTeacher", "deit"),
)
"""Module, class and attribute of the model inside. Others return every token, or average them (Dinov2, CLIP)."""


class HfHandle(Handle):
    """A transformers model that holds a vision model."""

    supported = hf_check.SUPPORTED

    @classmethod
    def recognises(cls, module: nn.Module) -> bool:
        """Whether it is a vision model class we know."""
        return family_of(type(module)) is not None

    @property
    def family(self) -> Family:
        """The modeling file that its class comes from."""
        family = family_of(type(self.vit))
        assert family is not None
        return family

    def inspect(self) -> ModelFacts:
        """Check every part that reduction touches, on the vanilla class."""
        return hf_check.inspect(self.vit, base_class(self.vit), self.family)

    def check_output(self, output: str) -> None:
        """Refuse `tokens` for a model that cannot take fewer of them."""
        if output == "tokens":
            refuse_grid_readers(self.model)

    def reads_patches(self) -> str:
        """Only a few classifiers read prefix tokens alone; all else returns the last tokens or averages them."""
        kind = base_class(self.model)
        if self.model is self.vit:
            return f"{kind.__name__} returns all of its last tokens"
        if _vit_in(kind) is None:
            names = ", ".join(name for _, name, _ in _READ_PREFIX)
            return f"{kind.__name__} is not among the classifiers that read prefix tokens alone: {names}"
        return ""

    def install(self, reduction: Reduction, correction: Correction | None = None) -> None:
        """Put a reduction on the tower; where it takes two, also on the model around.

        With `output="tokens"` its prompts are shorter, with `head_only` a classifier says what it will read.
        """
        super().install(reduction, correction)
        self._shorten(reduction.output == "tokens" and not reduction.is_vanilla)
        if reduction.head_only:
            set_class(self.model, reduced_class(base_class(self.model), HfHandle))

    def uninstall(self) -> None:
        """Make the tower and the whole model the vanilla ones again."""
        super().uninstall()
        self._shorten(False)

    def _shorten(self, on: bool) -> None:
        if self.model is not self.vit and (on or issubclass(type(self.model), Reduced)):
            shorten_prompts(self.model, on)

    def run(self, reduction: Reduction, record: Recorder | None, *args: Any, **kwargs: Any) -> Any:
        """Forward under reduction."""
        return hf_model.forward_like(base_class(self.vit))(self.vit, reduction, *args, record=record, **kwargs)

    @classmethod
    def overrides(cls, base: Any) -> dict[str, Any]:
        """The forward, which knows `return_dict`; of a classifier, what it passes on."""
        inside = _vit_in(base)
        if inside is not None:
            return {"forward": _telling(base.forward, inside)}
        return {"forward": can_return_tuple(vanilla_unless_reduced(base.forward, hf_model.forward_like(base)))}

    def cost(self, input_size: tuple[int, ...] | None = None) -> ModelCost:
        """Sizes for one input of (H, W) or (frames, H, W), the configured by default."""
        return hf_cost.cost(self.vit, self.family, self.linears(), input_size)

    def linears(self) -> list[BlockLinears]:
        """Those of the attention, and all others of the block."""
        return [_linears(self.family, block) for block in self.family.blocks_of(self.vit)]

    def example_shape(self, batch: int) -> tuple[int, ...]:
        """(B, 3, H, W), (B, T, 3, H, W) of clips, or (B, T, bins) of spectrograms."""
        config = self.vit.config
        if hasattr(config, "num_mel_bins"):
            return (batch, config.max_length, config.num_mel_bins)
        if not hasattr(config, "image_size"):
            raise UnsupportedModelError(
                f"{type(self.vit).__name__} takes patches that its processor has cut, of images of any size: prepare "
                "them with it, and call the model"
            )
        frames = () if self._frames is None else (self._frames,)
        return (batch, *frames, config.num_channels, *image_size(config))

    def preprocessing(self) -> Preprocessing:
        """What the processor beside its weights says.

        A model without one gets ImageNet's defaults, and a video model those of VideoMAE: no margin around the crop.
        """
        saved = saved_preprocessing(getattr(self.model, "name_or_path", ""), frames=self._frames)
        if saved is not None:
            return saved
        size = image_size(self.vit.config)
        if self._frames is None:
            return Preprocessing(size)
        return Preprocessing(size, crop_pct=1.0, interpolation="bilinear", frames=self._frames)

    @property
    def name(self) -> str:
        """The name on the hub, or that of the folder it was loaded from."""
        return str(getattr(self.model, "name_or_path", "")).rstrip("/").rpartition("/")[2]

    @property
    def num_classes(self) -> int:
        """Labels of the configuration, if there is anything around the vision model that could tell them apart."""
        config = getattr(self.model, "config", None)
        return 0 if self.model is self.vit or config is None else int(config.num_labels)

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the labels; those that transformers makes up itself, LABEL_0 and so on, are none."""
        labels = getattr(getattr(self.model, "config", None), "id2label", None) or {}
        names = tuple(str(labels[place]) for place in sorted(labels))
        return () if all(name.startswith("LABEL_") for name in names) else names

    @property
    def _frames(self) -> int | None:
        return getattr(self.vit.config, "num_frames", None)


def _linears(family: Family, block: Any) -> BlockLinears:
    # VideoMAE keeps its output projection beside the module with the other three, one level up.
    attention = block.attention if hasattr(block, "attention") else family.parts(block).attention
    inside = set(attention.modules())
    return BlockLinears(
        linears_in(attention.modules()), linears_in(module for module in block.modules() if module not in inside)
    )


def _vit_in(kind: type[Any]) -> str | None:
    """Attribute of the model inside a classifier that reads prefix tokens alone; None for any other class."""
    for module, name, inside in _READ_PREFIX:
        known = getattr(sys.modules.get(module), name, None)
        if known is not None and issubclass(kind, known) and kind.forward is known.forward:
            return inside
    return None


def _telling(forward: Callable[..., Any], inside: str) -> Callable[..., Any]:
    """The forward of a classifier, which tells a model under `head_only` that it will read prefix tokens alone."""

    @wraps(forward)
    def tell(model: Any, *args: Any, **kwargs: Any) -> Any:
        vit = getattr(model, inside)
        reduction = getattr(vit, "catis_reduction", None)
        told = {} if reduction is None or not reduction.head_only else {hf_model.PREFIX_ONLY: True}
        return with_the_same_weights(vit, forward, model, *args, **kwargs, **told)

    return tell
