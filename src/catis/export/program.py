"""A `torch.export` program of a model: one tensor in, one tensor out, batch size free or fixed."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from catis import hosts
from catis.errors import UnsupportedModelError
from catis.export.check import check, default_batches
from catis.export.contract import INPUT, write_contract
from catis.export.disk import check_room
from catis.export.report import ExportReport
from catis.files import write_whole

# What a transformers output is read for, first found first.
_OUTPUTS = ("logits", "image_embeds", "pooler_output", "last_hidden_state")


class OneOutput(nn.Module):
    """A model that takes pixels and returns one tensor, picked from a transformers output where there is one.

    Attributes:
        model: The model.
        output: Field of its output, or "logits" where the model returns a tensor.
    """

    def __init__(self, model: nn.Module, output: str) -> None:
        super().__init__()
        self.model = model
        self.output = output

    def forward(self, pixel_values: Tensor) -> Tensor:
        """The one tensor."""
        output = self.model(pixel_values)
        return output if isinstance(output, Tensor) else output[self.output]


def one_output(model: nn.Module, example: Tensor) -> OneOutput:
    """Wrap a model by what it returns for an example."""
    with torch.no_grad():
        output: Any = model(example)
    if isinstance(output, Tensor):
        return OneOutput(model, "logits")
    fields = getattr(output, "keys", lambda: ())()
    for name in _OUTPUTS:
        if name in fields:
            return OneOutput(model, name)
    raise UnsupportedModelError(
        f"{type(model).__name__} returned a {type(output).__name__}; expected a tensor or one of {', '.join(_OUTPUTS)}"
    )


def export_program(
    model: nn.Module, *, input_shape: tuple[int, ...] | None = None, dynamic_batch: bool = True
) -> ExportedProgram:
    """The `torch.export` program of a model in eval mode. The model itself is not changed.

    Args:
        model: A reduced model, or a vanilla one.
        input_shape: Shape of an input, batch first; the model's own by default.
        dynamic_batch: Take any batch size; otherwise only that of `input_shape`.

    Example:
        >>> import catis, timm
        >>> model = catis.apply(timm.create_model("test_vit").eval(), "tome", r=4)
        >>> program = export_program(model)
        >>> program.module()(torch.zeros(3, 3, 160, 160)).shape
        torch.Size([3, 1000])
    """
    if model.training:
        raise ValueError("the model is in training mode: call model.eval() before an export")
    shape = input_shape or hosts.find(model).example_shape(2 if dynamic_batch else 1)
    if dynamic_batch and shape[0] < 2:
        shape = (2, *shape[1:])  # a batch of one would be taken for a constant
    example = torch.zeros(shape, dtype=next(model.parameters()).dtype)
    wrapped = one_output(model, example).eval()
    dynamic = {INPUT: {0: Dim("batch")}} if dynamic_batch else None
    with torch.no_grad():
        return torch.export.export(wrapped, (example,), dynamic_shapes=dynamic)


def save_program(
    model: nn.Module,
    path: str | Path,
    *,
    input_shape: tuple[int, ...] | None = None,
    dynamic_batch: bool = True,
    tolerance: float = 1e-4,
) -> ExportReport:
    """Write a `torch.export` program (.pt2), load it back and compare it with the model; no file if they differ.

    Preprocessing, labels and recipe are in a JSON file beside it.
    """
    path = Path(path)
    check_room(model, path.parent)
    program = export_program(model, input_shape=input_shape, dynamic_batch=dynamic_batch)
    example = program.example_inputs[0][0]
    saved = io.BytesIO()  # PyTorch's own writer to a file ends the whole process when the disk is full
    torch.export.save(program, saved)
    saved.seek(0)
    loaded, wrapped = torch.export.load(saved).module(), one_output(model, example)
    batches = default_batches(tuple(example.shape), dynamic_batch)
    comparisons = check(wrapped, {f"torch.export {torch.__version__}": loaded}, batches, tolerance)
    report = ExportReport(path, tuple(example.shape), dynamic_batch, wrapped.output, comparisons)
    write_whole(path, saved.getvalue())
    write_contract(path, model, report)
    return report
