"""The figure of a diagnosis: rho_s, rho_off and distortion over the depth of a model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from catis.diagnostics.correlation import matched_levels
from catis.diagnostics.estimates import Estimate, PerBlock
from catis.diagnostics.report import Diagnosis
from catis.files import write_whole
from catis.report.chart import Panel, draw
from catis.report.colours import GREY, OTHERS, SIGNALS, Style, style_of
from catis.report.marks import Line


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
