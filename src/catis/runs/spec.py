"""What is to be run, as plain data: a model, a reduction, a data set, how and where to compute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from catis import hosts
from catis.core.reduction import Reduction
from catis.data.preprocessing import Preprocessing
from catis.hosts.correction import Correction

Precision = Literal["float32", "bfloat16", "float16", "amp", "amp-bfloat16"]
PRECISIONS: tuple[Precision, ...] = ("float32", "bfloat16", "float16", "amp", "amp-bfloat16")
"""The model's dtype, or autocast: `amp` in float16, as timm's default is, `amp-bfloat16` in bfloat16."""
INTERPOLATIONS = ("nearest", "bilinear", "bicubic", "box", "hamming", "lanczos")
"""Names that timm and Pillow have for ways to resize."""
OnError = Literal["skip", "raise"]
CORRUPTED = "imagenet-c"


@dataclass(frozen=True)
class ModelSpec:
    """A model by name, which weights it has, and how its images are prepared where its configuration is not right.

    Example:
        >>> model, preprocessing = ModelSpec("tiny-6", crop_pct=0.9).load()
        >>> preprocessing.size, preprocessing.crop_pct
        ((96, 96), 0.9)
    """

    name: str  # a timm name, a zoo name such as "tiny-12", or a directory that transformers' `save_pretrained` wrote
    checkpoint: str | None = None  # a .safetensors file with its weights
    pretrained: bool = False  # let timm fetch its own weights from the hub
    settings: Mapping[str, Any] = field(default_factory=dict)  # passed on to timm.create_model
    img_size: int | None = None  # side of the input; the model is built for it
    crop_pct: float | None = None  # share of the resized image that the crop keeps
    mean: tuple[float, float, float] | None = None  # per channel, on a 0..1 scale
    std: tuple[float, float, float] | None = None  # per channel, on a 0..1 scale
    interpolation: str | None = None  # one of timm's names

    def __post_init__(self) -> None:
        if self.interpolation is not None and self.interpolation not in INTERPOLATIONS:
            raise ValueError(f"interpolation={self.interpolation!r}: expected one of {', '.join(INTERPOLATIONS)}")

    @property
    def built_with(self) -> dict[str, Any]:
        """What goes to timm.create_model."""
        return dict(self.settings) | ({} if self.img_size is None else {"img_size": self.img_size})

    def load(self) -> tuple[nn.Module, Preprocessing]:
        """The model in eval mode, and how it wants its images."""
        from catis.models import load_model

        model = load_model(self.name, self.checkpoint, self.pretrained, **self.built_with)
        wanted = {name: getattr(self, name) for name in ("crop_pct", "mean", "std", "interpolation")}
        given = {name: value for name, value in wanted.items() if value is not None}
        return model, replace(hosts.find(model).preprocessing(), **given)


@dataclass(frozen=True)
class DataSpec:
    """A labelled data set, as it is or corrupted.

    Example:
        >>> DataSpec("imagenet", "/data/val", corruption="fog", severity=3).title
        'imagenet@fog:3'
    """

    # imagenet, imagenet-a, imagenet-r, imagenet-sketch, imagenet-c, a view of the embedded set (zoo-clean, zoo-hard,
    # zoo-renditions, zoo-sketch, zoo-corrupted), or any other name for a folder of class folders.
    name: str
    root: str | None = None  # its folder; None for the embedded set
    limit: int | None = None  # use this many images, spread evenly
    # One of the 15 of ImageNet-C: a folder of it under imagenet-c, made on the fly for any other name.
    corruption: str | None = None
    severity: int | None = None  # of the corruption, 1 to 5
    seed: int = 0  # of the corruption's random numbers, together with each image's name
    class_map: str | None = None  # a text file with the class folders' names in the order of the classes, one per line

    def __post_init__(self) -> None:
        if (self.corruption is None) != (self.severity is None):
            raise ValueError(f"corruption={self.corruption!r}, severity={self.severity!r}: give both or neither")

    @property
    def folder(self) -> Path | None:
        """Where its images are: of ImageNet-C, below its corruption and severity; None for the embedded set."""
        below = (str(self.corruption), str(self.severity)) if self.name == CORRUPTED else ()
        return None if self.root is None else Path(self.root, *below)

    @property
    def title(self) -> str:
        """The name, with the corruption if there is one."""
        return self.name if self.corruption is None else f"{self.name}@{self.corruption}:{self.severity}"


@dataclass(frozen=True)
class RunSpec:
    """One evaluation of one model under one reduction on one data set.

    Example:
        >>> spec = RunSpec(ModelSpec("tiny-6"), DataSpec("zoo-clean", limit=24), Reduction.of("tome", 8))
        >>> str(spec.reduction), str(spec.vanilla.reduction)
        ('tome r=8', 'vanilla')
    """

    model: ModelSpec  # the model
    data: DataSpec  # the data set
    # What is put on the model; nothing for the vanilla model.
    reduction: Reduction = field(default_factory=Reduction.none)
    batch_size: int = 64  # images per batch
    precision: Precision = "float32"  # the model's dtype, or autocast; see PRECISIONS
    device: str = "cpu"  # where it runs
    compile: bool = False  # whether the model goes through torch.compile
    seed: int = 0  # of torch's random numbers; decides the weights of a model that has none of its own
    on_error: OnError = "skip"  # what happens to an image that cannot be read: left out and listed, or an error
    correction: Correction | None = None  # calibrated weights that are put on with it

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise ValueError(f"precision={self.precision!r}: expected one of {', '.join(PRECISIONS)}")
        if self.on_error not in ("skip", "raise"):
            raise ValueError(f"on_error={self.on_error!r}: expected skip or raise")
        if self.batch_size < 1:
            raise ValueError(f"batch_size={self.batch_size}: expected at least 1")

    @property
    def vanilla(self) -> RunSpec:
        """The same run of the vanilla model."""
        return replace(self, reduction=Reduction.none(), correction=None)


def choose_device(asked: str | None = None) -> str:
    """The device asked for, or CUDA if there is one, or else the CPU.

    Example:
        >>> choose_device("cpu")
        'cpu'
    """
    if asked is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.zeros(1, device=torch.device(asked)).item()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        why = str(error).strip().splitlines()[0]
        raise ValueError(f"device={asked!r} cannot be used here; expected cpu, cuda or cuda:N ({why})") from error
    return asked
