"""The one place that needs matplotlib, and says so when it is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from catis.diagnostics.estimates import Estimate
from catis.errors import MissingExtraError


def axes(ax: Any | None = None) -> Any:
    """The axes given, or new ones.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    if ax is not None:
        return ax
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("plot()", "plots") from error
    return Figure(figsize=(6, 3.5), layout="constrained").add_subplot()


def draw_blocks(curves: Mapping[str, Sequence[Estimate]], label: str, ax: Any | None = None) -> Any:
    """One line per curve over the blocks, with its confidence band."""
    ax = axes(ax)
    for name, estimates in curves.items():
        blocks = range(len(estimates))
        (line,) = ax.plot(blocks, [estimate.mean for estimate in estimates], marker="o", markersize=3, label=name)
        low, high = [estimate.low for estimate in estimates], [estimate.high for estimate in estimates]
        ax.fill_between(blocks, low, high, alpha=0.2, color=line.get_color(), linewidth=0)
    ax.set_xlabel("block")
    ax.set_ylabel(label)
    ax.legend(frameon=False, fontsize="small")
    return ax
