"""Whether a transformers model is one that catis reduces rightly; if not, an error that names the part that is not."""

from __future__ import annotations

from functools import partial
from types import MethodType
from typing import Any

from torch import nn

from catis.errors import UnsupportedModelError
from catis.hosts.cost import ModelFacts
from catis.hosts.hf_families import FAMILIES
from catis.hosts.hf_family import Family

SUPPORTED = (
    f"transformers {', '.join(family.title for family in FAMILIES)} (vision towers, bare or inside a larger model)"
)


def inspect(model: Any, kind: type[nn.Module], family: Family) -> ModelFacts:
    """Check every part that reduction touches. `kind` is the model's vanilla class."""
    if kind.forward is not family.known(family.model).forward or _forward_replaced(model):
        raise _unsupported(f"{kind.__name__}.forward that replaces transformers' own")
    refused = family.refuses(model)
    if refused is not None:
        raise _unsupported(refused)
    blocks = family.blocks_of(model)
    if len(blocks) == 0:
        raise _unsupported(f"{kind.__name__} without blocks")
    for index, block in enumerate(blocks):
        _check_module(block, [family.known(family.block)], f"{family.blocks}.{index}")
        attentions = [family.known(ending) for ending in family.attention.split("|")]
        _check_module(family.parts(block).attention, attentions, f"attention of block {index}")
    if getattr(model, "use_head", False):
        _check_module(model.head, [family.known("MultiheadAttentionPoolingHead")], "head")
    _check_one_device(blocks)
    return ModelFacts(len(blocks), family.num_prefix(model), family.has_cls, family.windowed(model))


def _unsupported(part: str) -> UnsupportedModelError:
    return UnsupportedModelError(f"found {part}, which catis cannot reduce rightly. Supported: {SUPPORTED}.")


def _check_module(module: nn.Module, known: list[type[Any]], where: str) -> None:
    same = any(isinstance(module, kind) and type(module).forward is kind.forward for kind in known)
    if not same or _forward_replaced(module):
        raise _unsupported(f"{type(module).__module__}.{type(module).__name__} at {where}")


def _forward_replaced(module: nn.Module) -> bool:
    """Whether somebody set another forward on the instance. accelerate does so too, around the original one."""
    own = vars(module).get("forward")
    if own is None or (isinstance(own, MethodType) and own.__self__ is module):
        return False
    return not (isinstance(own, partial) and "_old_forward" in vars(module))


def _check_one_device(blocks: nn.ModuleList) -> None:
    # Offloaded weights are on the meta device until their own hooks fetch them, which still happens.
    devices = {str(parameter.device) for parameter in blocks.parameters()} - {"meta"}
    if len(devices) > 1:
        raise UnsupportedModelError(
            f"the blocks are spread over {', '.join(sorted(devices))}; token reduction runs them as one sequence: load "
            "the model on one device"
        )
