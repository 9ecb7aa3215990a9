"""What a benchmark runs and for how long, checked before anything is built; and the known protocols by name."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Literal, get_args

import torch

from catis.core.schedule import RLike
from catis.recipes import Recipe
from catis.runs.spec import choose_device

Runtime = Literal["torch", "onnxruntime", "openvino"]
"""What runs a model; all but torch run an exported file."""

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class Protocol:
    """How many passes are run."""

    batch_sizes: tuple[int, ...] | None = None  # images per pass; None is 1 and 8 on CPU, 1 and 64 on CUDA
    warmup: int = 2  # untimed passes before the first timed one
    rounds: int = 31  # timed passes
    max_seconds: float | None = None  # time limit per row; None for no limit


PRESETS = {
    "quick": Protocol(max_seconds=1.5),
    "paper": Protocol((64,), 50, 200),
    "timm": Protocol((256,), 10, 40),
}
"""Protocols by name: quick looks, the paper's throughput table, and the defaults of timm's benchmark.py."""


@dataclass(frozen=True)
class Precision:
    """Number formats.

    Example:
        >>> Precision(amp_dtype="bfloat16").name
        'amp_bfloat16'
    """

    model_dtype: str = "float32"  # of weights and input
    amp_dtype: str | None = None  # of autocast; None without it

    def __post_init__(self) -> None:
        """Check the names."""
        for option in ("model_dtype", "amp_dtype"):
            given = getattr(self, option)
            if given not in DTYPES and not (option == "amp_dtype" and given is None):
                raise ValueError(f"{option}={given!r}: expected one of {', '.join(DTYPES)}")
        if self.amp_dtype is not None and self.model_dtype != "float32":
            raise ValueError(f"amp with model_dtype={self.model_dtype!r}: autocast is for float32 weights; drop one")

    @property
    def name(self) -> str:
        """One word for tables."""
        return self.model_dtype if self.amp_dtype is None else f"amp_{self.amp_dtype}"

    @property
    def weights(self) -> torch.dtype:
        """Format of weights and input."""
        return DTYPES[self.model_dtype]

    @property
    def products(self) -> torch.dtype:
        """Format that the matrix products run in."""
        return DTYPES[self.amp_dtype or self.model_dtype]

    def autocast(self, device: torch.device) -> AbstractContextManager[object]:
        """A context for the forward pass."""
        return nullcontext() if self.amp_dtype is None else torch.autocast(device.type, self.products)


@dataclass(frozen=True)
class Settings:
    """Everything that is varied, and everything that is held.

    Example:
        >>> Settings(methods=("tome",), protocol=PRESETS["paper"]).protocol.rounds
        200
        >>> Settings(methods=())
        Traceback (most recent call last):
        ...
        ValueError: methods=(): expected at least one beside vanilla
    """

    methods: tuple[str, ...]  # methods to time beside vanilla
    # Tokens per block, in any spelling of `catis.apply`; None is four fifths of the patches over the depth.
    amounts: tuple[RLike, ...] | None = None
    protocol: Protocol = PRESETS["quick"]  # how many passes
    # False for eager rows, True for rows under torch.compile, each against vanilla in the same state.
    compiled: tuple[bool, ...] = (False,)
    device: str = "cpu"  # where
    precision: Precision = Precision()  # number formats
    threads: int | None = None  # threads of PyTorch on CPU; None for those it is set to
    seed: int = 0  # of the input and of the order within the rounds
    causes: bool = True  # also time the parts of a pass, for the reasons, and take the peak memory; of PyTorch only
    recipes: tuple[Recipe, ...] = ()  # timed too, as they are; with one, methods may be empty
    runtime: Runtime = "torch"  # "torch", or "onnxruntime" or "openvino": then all variants run as exported files

    def __post_init__(self) -> None:
        """Check what no other part would refuse."""
        self._check_runtime()
        choose_device(self.device)
        if not self.methods and not self.recipes:
            raise ValueError("methods=(): expected at least one beside vanilla")
        if not self.compiled:
            raise ValueError("neither eager nor compiled rows were asked for: take at least one")
        if any(batch < 1 for batch in self.batch_sizes):
            raise ValueError(f"batch sizes {self.batch_sizes}: expected at least one image each")
        if self.protocol.rounds < 1 or self.protocol.warmup < 0:
            raise ValueError(f"{self.protocol}: expected at least one round, and no negative warm-up")

    def _check_runtime(self) -> None:
        if self.runtime not in get_args(Runtime):
            raise ValueError(f"runtime={self.runtime!r}: expected one of {', '.join(get_args(Runtime))}")
        if self.runtime == "torch":
            return
        if self.compiled != (False,):
            raise ValueError(
                f"runtime={self.runtime!r} with torch.compile: an exported file is not compiled by PyTorch"
            )
        if self.place.type != "cpu" or self.precision.name != "float32":
            raise ValueError(
                f"runtime={self.runtime!r} on {self.device} in {self.precision.name}: exported files are timed on the "
                "CPU in float32 here; benchmarks/deploy.py has the other formats"
            )

    @property
    def place(self) -> torch.device:
        """The device."""
        return torch.device(self.device)

    @property
    def batch_sizes(self) -> tuple[int, ...]:
        """Images per pass, smallest first."""
        chosen = self.protocol.batch_sizes or ((1, 64) if self.place.type == "cuda" else (1, 8))
        return tuple(sorted(set(chosen)))
