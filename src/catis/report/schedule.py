"""The figure of a schedule: tokens kept per block, how fast they go, and rho_s of the same blocks beside it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from catis.diagnostics.estimates import Estimate
from catis.report.chart import Panel
from catis.report.colours import GREY, METHODS, OTHERS, Style
from catis.report.diagnosis import signal_lines
from catis.report.marks import Line

_STYLES = (METHODS["catis"], METHODS["tome"], METHODS["mctf"], METHODS["pitome"], METHODS["tofu"], *OTHERS)
"""By place: a figure of schedules compares schedules, so colours stand for these and not for methods."""


def schedule_panels(
    kept: Mapping[str, Sequence[int]], num_patches: int, rho_s: Mapping[str, Sequence[Estimate]]
) -> list[Panel]:
    """Tokens that leave each block, the rate at which they go, and rho_s; blocks count from 0.

    Args:
        kept: By name of the schedule, patch tokens that leave each block. The first is drawn as the one to look at.
        num_patches: Patch tokens at the start; also those of vanilla, a grey line for comparison.
        rho_s: By name of the signal ("pairwise", "fused"), per block.

    Raises:
        ValueError: Schedules and signals of different depth.

    Example:
        >>> rho_s = {"pairwise": [Estimate(0.9, 0.8, 1.0, 5), Estimate(0.4, 0.3, 0.5, 5)]}
        >>> [panel.title for panel in schedule_panels({"same share": [12, 9]}, 16, rho_s)][1]
        'rate of removal'
    """
    depths = {name: len(blocks) for name, blocks in {**kept, **rho_s}.items()}
    if len(set(depths.values())) != 1:
        told = ", ".join(f"{name} {depth}" for name, depth in depths.items())
        raise ValueError(f"blocks of each curve: {told}; expected the same number, those of one model")
    depth = next(iter(depths.values()))
    styles = {name: _STYLES[place % len(_STYLES)] for place, name in enumerate(kept)}
    vanilla = Line("vanilla", range(depth), [num_patches] * depth, GREY, dash="dashed")
    tokens = [_line(name, counts, styles[name]) for name, counts in kept.items()]
    rates = [_line(name, removal_rates(counts, num_patches), styles[name]) for name, counts in kept.items()]
    return [
        Panel("patch tokens kept", "block", "tokens after the block", [vanilla, *tokens], (0.0,)),
        Panel("rate of removal", "block", "log(entering / kept)", rates, (0.0,)),
        Panel("rho_s, clean against corrupted", "block", "rho_s", signal_lines(rho_s), (0.0, 1.0)),
    ]


def removal_rates(kept: Sequence[int], num_patches: int) -> list[float]:
    """Per block, log(entering / kept): 0 where nothing goes, log 2 where half goes; NaN where nothing is left.

    Example:
        >>> [round(rate, 2) for rate in removal_rates([12, 6, 6], 12)]
        [0.0, 0.69, 0.0]
    """
    before = [num_patches, *kept[:-1]]
    return [math.log(last / now) if now else math.nan for last, now in zip(before, kept, strict=True)]


def _line(name: str, values: Sequence[float], style: Style) -> Line:
    return Line(name, range(len(values)), values, *style)
