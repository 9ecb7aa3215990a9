"""Figures over the depth of a model: of a diagnosis (rho_s, rho_off, distortion), and of schedules beside rho_s."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from catis.diagnostics.correlation import matched_levels
from catis.diagnostics.estimates import Estimate, PerBlock
from catis.diagnostics.report import Diagnosis
from catis.files import write_whole
from catis.report.chart import Panel, draw
from catis.report.colours import GREY, METHODS, OTHERS, SIGNALS, Style, style_of
from catis.report.marks import Line

_STYLES = (METHODS["catis"], METHODS["tome"], METHODS["mctf"], METHODS["pitome"], METHODS["tofu"], *OTHERS)
"""By place: a figure of schedules compares schedules, so colours stand for these and not for methods."""


def save_figure(diagnosis: Diagnosis, path: str | Path) -> None:
    """Write the figure as SVG, whole or not at all; it needs no plotting package, so it can always be written."""
    title = f"{diagnosis.model}, {diagnosis.method} {diagnosis.r}, n={diagnosis.n}: {diagnosis.verdict.state}"
    write_whole(Path(path), draw(diagnosis_panels(diagnosis), title, columns=3).encode())


def diagnosis_panels(diagnosis: Diagnosis) -> list[Panel]:
    """rho_s of each signal, rho_off against chance, distortion with its fit; blocks count from 0, as in the table."""
    off = off_lines(diagnosis.vanilla, {diagnosis.method: diagnosis.reduced})
    return [
        Panel("rho_s, clean against corrupted", "block", "rho_s", signal_lines(diagnosis.consistency), (0.0, 1.0)),
        Panel("rho_off of the block's output", "block", "rho_off", off, (0.0,)),
        Panel("distortion", "block", "1 - cosine to vanilla", _distortion(diagnosis), (0.0,)),
    ]


def signal_lines(consistency: Mapping[str, Sequence[Estimate]], first: int = 0) -> list[Line]:
    """rho_s of every signal that was measured; `first` is the number of the first block."""
    return [
        over_blocks(name, consistency[name], style, first) for name, style in SIGNALS.items() if name in consistency
    ]


def off_lines(vanilla: PerBlock, reduced: Mapping[str, PerBlock], first: int = 0) -> list[Line]:
    """rho_off of the vanilla model and of each method; and what vanilla's features and chance show on as few tokens."""
    fewer = next(iter(reduced.values()))
    blocks = range(first, first + len(fewer["chance"]))
    chance = [estimate.mean for estimate in fewer["chance"]]
    return [
        over_blocks("vanilla", vanilla["rho_off"], style_of("vanilla"), first),
        *(over_blocks(name, seen["rho_off"], style_of(name), first) for name, seen in reduced.items()),
        Line("vanilla on as few tokens", blocks, matched_levels(vanilla, fewer), GREY, dash="dashed"),
        Line("chance on as few tokens", blocks, chance, GREY, dash="dotted"),
    ]


def over_blocks(name: str, blocks: Sequence[Estimate], style: Style, first: int = 0) -> Line:
    """A quantity over depth, one estimate per block, with its interval over images."""
    low, high = [block.low for block in blocks], [block.high for block in blocks]
    return Line(name, range(first, first + len(blocks)), [block.mean for block in blocks], *style, low=low, high=high)


def _distortion(diagnosis: Diagnosis) -> list[Line]:
    """Of the method in its colour, of its two channels apart where they were replayed, and the fit."""
    styles = {"distortion": style_of(diagnosis.method), "merge_only": OTHERS[0], "evict_only": OTHERS[1]}
    names = {"distortion": diagnosis.method, "merge_only": "merging only", "evict_only": "evicting only"}
    measured = [key for key in names if key in diagnosis.distortion]
    lines = [over_blocks(names[key], diagnosis.distortion[key], styles[key]) for key in measured]
    path = () if diagnosis.amplifier is None else diagnosis.amplifier.path
    fitted = [*[math.nan] * (diagnosis.depth - len(path)), *path]
    return [*lines, Line("amplifier fit", range(len(fitted)), fitted, GREY, dash="dashed")] if path else lines


def schedule_panels(
    kept: Mapping[str, Sequence[int]], num_patches: int, rho_s: Mapping[str, Sequence[Estimate]]
) -> list[Panel]:
    """Tokens that leave each block, the rate at which they go, and rho_s; blocks count from 0.

    Args:
        kept: By name of the schedule, patch tokens that leave each block. The first is drawn as the one to look at.
        num_patches: Patch tokens at the start; also those of vanilla, a grey line for comparison.
        rho_s: By name of the signal ("pairwise", "fused"), per block.

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
