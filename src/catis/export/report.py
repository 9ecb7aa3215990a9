"""What an export did: the file, what it was checked against, and which operators it uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Comparison:
    """A batch run by a runtime, with its version, and by PyTorch, and the largest absolute difference of any output."""

    runtime: str
    batch: int
    difference: float


@dataclass(frozen=True)
class ExportReport:
    """A finished export."""

    path: Path  # the file
    input_shape: tuple[int, ...]  # shape of the example, batch first
    dynamic_batch: bool  # whether the file takes any batch size
    output: str  # name of the output
    comparisons: tuple[Comparison, ...]  # every check that was made; all within the tolerance
    # How often each ONNX operator occurs; empty for a `torch.export` program.
    operators: Mapping[str, int] = field(default_factory=dict)

    @property
    def worst(self) -> float:
        """Largest difference over all checks."""
        return max(comparison.difference for comparison in self.comparisons)
