"""The handle on a model: one object that answers everything the rest of catis asks of a model library."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

from torch import Tensor, nn

from catis.core.block import Recorder
from catis.core.reduction import Reduction
from catis.data.preprocessing import Preprocessing
from catis.hosts.cost import BlockLinears, ModelCost, ModelFacts, fitted
from catis.hosts.installation import Installation
from catis.hosts.swap import vanilla_unless_reduced


class Handle(Installation):
    """The Vision Transformer in a model. Made by `hosts.find`; subclassed once for each model library.

    A handle keeps nothing: the reduction lies on the model, what a forward call needs lies in the call.

    Args:
        model: The model that was given.
        vit: The Vision Transformer in it, or the model itself.

    Example:
        >>> import timm
        >>> from catis import hosts
        >>> handle = hosts.find(timm.create_model("vit_tiny_patch16_224"))
        >>> handle.facts.depth, handle.num_classes, handle.reduction, handle.example_shape(2)
        (12, 1000, None, (2, 3, 224, 224))
    """

    supported: ClassVar[str]
    """What this host supports, for error messages."""

    @classmethod
    @abstractmethod
    def recognises(cls, module: nn.Module) -> bool:
        """Whether this module is a Vision Transformer of this library, vanilla or reduced."""

    @abstractmethod
    def inspect(self) -> ModelFacts:
        """Check every part that reduction touches; raises UnsupportedModelError where one is not as we know it."""

    @abstractmethod
    def run(self, reduction: Reduction, record: Recorder | None, *args: Any, **kwargs: Any) -> Any:
        """The Vision Transformer's forward under a reduction, with the arguments of its own forward, watched."""

    @abstractmethod
    def cost(self, input_size: tuple[int, ...] | None = None) -> ModelCost:
        """Sizes for counting multiply-adds; reads shapes only, so a model on the meta device will do."""

    @abstractmethod
    def linears(self) -> list[BlockLinears]:
        """The linear layers of each block."""

    @abstractmethod
    def example_shape(self, batch: int) -> tuple[int, ...]:
        """Input shape that the model is made for, batch first."""

    @abstractmethod
    def preprocessing(self) -> Preprocessing:
        """How the model wants its images."""

    def reads_patches(self) -> str:
        """Why patch tokens that leave the last block are needed; empty where the output is made of the prefix alone."""
        return "its host does not say what the head reads"

    def fixed_size(self) -> str:
        """Why images cannot be resized before the model sees them; empty where they can, and nobody sees the grid."""
        return "its host does not say how to"

    def bind(self, reduction: Reduction) -> Reduction:
        """The reduction fitted to this model, checked.

        Raises:
            ValueError: The method, the amount, `output`, `head_only` or `input_size` does not fit the model.
        """
        if reduction.head_only is None and (reduction.budget or 1) < 1:
            reduction = replace(reduction, head_only=not self.reads_patches())
        why = self.reads_patches() if reduction.head_only else ""
        if why:
            raise ValueError(
                f"head_only=True: the last block may leave out patch tokens only where nobody reads them; {why}"
            )
        why = self.fixed_size() if reduction.input_size is not None else ""
        if why:
            raise ValueError(f"input_size={reduction.input_size}: the model cannot be fed a smaller image; {why}")
        self.check_output(reduction.output)
        if reduction.method.needs_cls and not self.facts.has_cls:
            raise ValueError(f"{reduction.method.name} with pooling='attention' needs a CLS token; this model has none")
        if reduction.budget is not None and not reduction.schedule.patches:
            vanilla = self.cost().macs(self.facts.num_prefix)
            reduction = fitted(reduction, self.cost_under(reduction), self.facts, vanilla)
        return self.facts.bound(reduction)

    def cost_under(self, reduction: Reduction) -> ModelCost:
        """Sizes of the model on images as large as a reduction makes them."""
        side = reduction.input_size
        return self.cost(None if side is None else (side, side))

    @classmethod
    def overrides(cls, base: Any) -> dict[str, Any]:
        """See `Installation.overrides`: the forward alone, unless a library has more."""

        def forward(vit: Any, reduction: Reduction, *args: Any, **kwargs: Any) -> Any:
            return cls(vit, vit).run(reduction, None, *args, **kwargs)

        return {"forward": vanilla_unless_reduced(base.forward, forward)}

    @cached_property
    def facts(self) -> ModelFacts:
        """Depth and prefix of a model that `inspect` accepts."""
        return self.inspect()

    @property
    def name(self) -> str:
        """What its library calls the model; empty if it has no name."""
        return ""

    @property
    def num_classes(self) -> int:
        """Classes that the model tells apart; 0 without a classifier."""
        own = getattr(self.model, "num_classes", None)
        return int(getattr(self.vit, "num_classes", 0) if own is None else own)

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the classes in order, if the model says them."""
        return ()

    @property
    def labels(self) -> tuple[str, ...]:
        """What people call the classes, in order; empty if nobody knows."""
        return self.class_names

    def logits(self, output: Any) -> Tensor | None:
        """(B, classes) of what the model returned, or None if it is no classifier."""
        logits = getattr(output, "logits", output)
        if logits is output and getattr(self.model, "num_classes", None) == 0:
            return None
        return logits if isinstance(logits, Tensor) and logits.ndim == 2 else None

    def classes(self, output: Any) -> Tensor | None:
        """(B,) classes that the model predicts, or None if it is no classifier."""
        logits = self.logits(output)
        return None if logits is None else logits.argmax(-1)

    def check_output(self, output: str) -> None:
        """Refuse what the model cannot hand on: "tokens" is for vision towers of models with a language model."""
        if output != "grid":
            raise ValueError(
                f"output={output!r}: {type(self.model).__name__} has no language model that could take fewer tokens; "
                "use output='grid'"
            )

    def watch(self, inputs: Tensor, record: Recorder, **others: Any) -> Any:
        """Run the Vision Transformer alone, with a recorder on every block; returns what it returns."""
        assert self.reduction is not None
        return self.run(self.reduction, record, inputs, **others)

    @contextmanager
    def watching(self, record: Recorder) -> Iterator[None]:
        """Put a recorder on every block for a with-block, in which the model around it runs as always."""
        reduction = self.reduction
        assert reduction is not None
        before = vars(self.vit).get("forward")
        vars(self.vit)["forward"] = lambda *args, **kwargs: self.run(reduction, record, *args, **kwargs)
        try:
            yield
        finally:
            del vars(self.vit)["forward"]
            if before is not None:
                vars(self.vit)["forward"] = before
