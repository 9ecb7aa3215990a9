"""How much memory an export with a fixed batch would take, told before any of it is asked for."""

from __future__ import annotations

import math
import os

from torch import nn

from catis import hosts

_COPIES = 3
"""Input, output and what PyTorch and a runtime keep of a block at the same time."""


def check_batch(model: nn.Module, batch: int) -> None:
    """Refuse a batch whose check would not fit into half of the machine's memory.

    Raises:
        ValueError: It would not; the message says how much it takes and what would fit.
    """
    room = _memory()
    needed = _bytes_per_image(model)
    if room is None or batch * needed <= room / 2:
        return
    fits = max(1, int(room / 2 / needed))
    raise ValueError(
        f"--batch {batch}: to export and check it would take about {batch * needed / 1e9:.0f} GB, and this machine has "
        f"{room / 1e9:.0f} GB; take at most {fits}, or leave --batch out: then the file takes any number of images"
    )


def _bytes_per_image(model: nn.Module) -> float:
    """Input, and the widest block: its linear layers and attention maps, which runtimes write out."""
    handle = hosts.find(model)
    cost, tokens = handle.cost(), handle.cost().num_patches + handle.facts.num_prefix
    widest = max(
        tokens * sum(outputs for _, outputs in (*block.attention_layers, *block.mlp_layers))
        + 2 * block.num_heads * tokens**2
        for block in cost.blocks
    )
    return 4.0 * _COPIES * (math.prod(handle.example_shape(1)) + widest)


def _memory() -> int | None:
    """Bytes that the machine has; None where the system does not say."""
    names = getattr(os, "sysconf_names", {})
    if "SC_PHYS_PAGES" not in names or "SC_PAGE_SIZE" not in names:
        return None
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
