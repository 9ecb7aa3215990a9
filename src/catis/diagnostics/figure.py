"""The one figure of a diagnosis, as plain SVG: it needs no plotting package, so it is always written."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from catis.diagnostics.estimates import Estimate
from catis.diagnostics.report import Diagnosis, rows

__all__ = ["draw", "save_figure"]

WIDTH, HEIGHT, PANEL, GAP = 1080, 400, 300, 60
COLOURS = ("#1b6ca8", "#d1495b", "#2e8b57", "#8a5fb0", "#c98b12", "#444444")
Curve = tuple[str, Sequence[float], Sequence[tuple[float, float]]]


def save_figure(diagnosis: Diagnosis, path: str | Path) -> None:
    """Write `draw` to a file, whole or not at all."""
    target = Path(path)
    partial = target.with_name(target.name + ".part")
    partial.write_text(draw(diagnosis))
    partial.replace(target)


def draw(diagnosis: Diagnosis) -> str:
    """SVG with three panels over depth: rho_s of each signal, rho_off against chance, distortion and its fit."""
    rho = {name: diagnosis.consistency[name] for name in ("pairwise", "pool", "s_nf", "s_cls", "fused")
           if name in diagnosis.consistency}  # fmt: skip
    off = {
        "vanilla": diagnosis.vanilla["rho_off"],
        diagnosis.method: diagnosis.reduced["rho_off"],
        "chance": diagnosis.reduced["chance"],
    }
    matched = _line("vanilla, as many", [row["matched"] for row in rows(diagnosis)])
    fit = () if diagnosis.amplifier is None else diagnosis.amplifier.path
    fitted = [_line("amplifier fit", [math.nan] * (diagnosis.depth - len(fit)) + list(fit))] if fit else []
    shown = ("distortion", "merge_only", "evict_only")
    far = {name: diagnosis.distortion[name] for name in shown if name in diagnosis.distortion}
    title = f"{diagnosis.model}, {diagnosis.method} {diagnosis.r}, n={diagnosis.n}: {diagnosis.verdict.state}"
    panels = [
        _panel(0, "rho_s, clean against corrupted", _curves(rho), top=1.0),
        _panel(1, "rho_off of the block's output", [*_curves(off), matched]),
        _panel(2, "1 - cosine to vanilla", [*_curves(far), *fitted]),
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"'
        ' font-family="sans-serif" font-size="12">'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>'
        f'<text x="{GAP - 10}" y="26" font-size="16">{escape(title)}</text>{"".join(panels)}</svg>\n'
    )


def _curves(layers: Mapping[str, Sequence[Estimate]]) -> list[Curve]:
    return [(name, [e.mean for e in values], [(e.low, e.high) for e in values]) for name, values in layers.items()]


def _line(name: str, values: Sequence[float]) -> Curve:
    return name, values, [(math.nan, math.nan)] * len(values)


def _panel(place: int, title: str, curves: Sequence[Curve], top: float | None = None) -> str:
    left, floor, roof = GAP + place * (PANEL + GAP) - 10, HEIGHT - 110, 70
    known = [v for _, values, _ in curves for v in values if not math.isnan(v)]
    high = top or _round_up(max(known, default=1.0))
    low = min(0.0, min(known, default=0.0))
    depth = max(len(values) for _, values, _ in curves)

    def point(layer: float, value: float) -> tuple[float, float]:
        share = (min(max(value, low), high) - low) / (high - low)
        return left + layer * PANEL / max(depth - 1, 1), floor - share * (floor - roof)

    parts = [f'<text x="{left}" y="{roof - 12}">{escape(title)}</text>', _axes(left, floor, roof, low, high, depth)]
    for index, curve in enumerate(curves):
        parts.append(_curve(curve, COLOURS[index % len(COLOURS)], point))
        x, y = left + index % 3 * 100, floor + 48 + 18 * (index // 3)
        parts.append(f'<rect x="{x}" y="{y - 9}" width="10" height="10" fill="{COLOURS[index % len(COLOURS)]}"/>')
        parts.append(f'<text x="{x + 14}" y="{y}">{escape(curve[0])}</text>')
    return "".join(parts)


def _curve(curve: Curve, colour: str, point: object) -> str:
    assert callable(point)
    _, values, spans = curve
    dots = [point(layer, value) for layer, value in enumerate(values) if not math.isnan(value)]
    band = [(layer, low, high) for layer, (low, high) in enumerate(spans) if not math.isnan(low)]
    edge = [point(layer, high) for layer, _, high in band] + [point(layer, low) for layer, low, _ in reversed(band)]
    shade = f'<polygon points="{_points(edge)}" fill="{colour}" opacity="0.18"/>' if edge else ""
    marks = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>' for x, y in dots)
    return f'{shade}<polyline points="{_points(dots)}" fill="none" stroke="{colour}" stroke-width="1.6"/>{marks}'


def _axes(left: float, floor: float, roof: float, low: float, high: float, depth: int) -> str:
    parts = [f'<path d="M{left} {roof}V{floor}H{left + PANEL}" fill="none" stroke="#888"/>']
    for step in range(5):
        y = floor - step / 4 * (floor - roof)
        parts.append(
            f'<text x="{left - 6}" y="{y + 4:.0f}" text-anchor="end">{low + step / 4 * (high - low):.3g}</text>'
        )
        parts.append(f'<path d="M{left} {y:.1f}H{left + PANEL}" stroke="#eee"/>')
    for layer in range(0, depth, max(1, depth // 6)):
        x = left + layer * PANEL / max(depth - 1, 1)
        parts.append(f'<text x="{x:.0f}" y="{floor + 16}" text-anchor="middle">{layer}</text>')
    return "".join(parts) + f'<text x="{left + PANEL / 2}" y="{floor + 30}" text-anchor="middle">block</text>'


def _points(pairs: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in pairs)


def _round_up(value: float) -> float:
    """The next 1, 2 or 5 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value * 0.999)
