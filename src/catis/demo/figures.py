"""The demo's figures. None contains a timing, so they are the same bytes for the same seed on one machine."""

from __future__ import annotations

import io
from collections.abc import Sequence

from catis.demo.chart import Line, Panel, draw
from catis.demo.claims import PAPER_SLOPES
from catis.demo.findings import Findings
from catis.demo.probes import CORRUPTION, Probed
from catis.diagnostics.correlation import chance_level
from catis.diagnostics.critical import DROP
from catis.diagnostics.estimates import Estimate

__all__ = ["draw_figures"]

GREY = "#8a8a8a"
STYLE = {
    "tome": ("#4477aa", "circle"), "tofu": ("#33a6c4", "square"), "pitome": ("#228833", "triangle"),
    "mctf": ("#b8860b", "diamond"), "catis": ("#cc3311", "circle"),
}  # fmt: skip
SIGNALS = {
    "pairwise": "#4477aa", "pool": "#33a6c4", "s_nf": "#228833", "s_cls": "#b8860b", "fused": "#cc3311",
}  # fmt: skip


def draw_figures(found: Findings) -> dict[str, bytes]:
    """All figures by file name."""
    file = io.BytesIO()
    found.picture.save(file, format="PNG")
    charts = {
        "accuracy.svg": draw(_accuracy(found), "Accuracy against r"),
        "r_crit.svg": draw(_critical(found), "r_crit against 1/L"),
        "rho_s.svg": draw([_consistency(one) for one in found.probed.values()], "rho_s over depth"),
        "rho_off.svg": draw([_correlation(one) for one in found.probed.values()], "rho_off over depth"),
    }
    return {name: text.encode() for name, text in charts.items()} | {"tokens.png": file.getvalue()}


def _accuracy(found: Findings) -> list[Panel]:
    panels = []
    for view in found.n:
        for model in found.settings.compared:
            curves = {method: found.curves[model, view, method] for method in found.settings.methods}
            vanilla = next(iter(curves.values()))[0]
            ends = [0, max(max(curve) for curve in curves.values())]
            lines = [Line("vanilla - 5 points", ends, [100 * (vanilla - DROP)] * 2, GREY, dash=True)]
            lines += [
                Line(name, sorted(curve), [100 * curve[r] for r in sorted(curve)], *STYLE[name])
                for name, curve in curves.items()
            ]
            title = f"{model}, {view} (n={found.n[view]})"
            panels.append(Panel(title, "r, patch tokens removed per block", "accuracy, %", lines))
    return panels


def _critical(found: Findings) -> list[Panel]:
    panels = []
    for view in found.limits:
        lines = [line for method in found.settings.methods for line in _law(found, view, method)]
        for name, slope in PAPER_SLOPES[view].items():
            colour = STYLE[name][0] if name in STYLE else GREY
            lines.append(_through_origin(f"paper {name}: {slope} / L", slope, colour, found, dash=True))
        title = f"{view} (n={found.n[view]} images, {len(found.settings.models)} depths)"
        panels.append(Panel(title, "1 / L, for L blocks", "r_crit, tokens per block", lines))
    return panels


def _law(found: Findings, view: str, method: str) -> list[Line]:
    """The points of a method, those without r_crit left out, and its fit."""
    mine = [one for one in found.limits[view].values() if one.method == method]
    known = sorted((1 / one.depth, one.r) for one in mine if one.r is not None)
    colour, marker = STYLE[method]
    fit = found.laws[view][method].fit
    name = method if fit is None else f"{method}: {fit.slope:.0f} / L"
    points = Line(name, [x for x, _ in known], [float(r) for _, r in known], colour, marker, joined=False)
    return [points] if fit is None else [points, _through_origin(name, fit.slope, colour, found)]


def _through_origin(name: str, slope: float, colour: str, found: Findings, dash: bool = False) -> Line:
    ends = [0.0, max(1 / one.depth for limits in found.limits.values() for one in limits.values())]
    return Line(name, ends, [slope * x for x in ends], colour, dash=dash)


def _consistency(probed: Probed) -> Panel:
    lines = [
        _over_depth(name, probed.consistency[name], colour)
        for name, colour in SIGNALS.items()
        if name in probed.consistency
    ]
    title = f"{probed.model}, {CORRUPTION[0]} {CORRUPTION[1]} (n={probed.n})"
    return Panel(title, "block", "rho_s, clean against noisy", lines)


def _correlation(probed: Probed) -> Panel:
    blocks = list(range(1, len(probed.matched) + 1))
    tokens = next(iter(probed.reduced.values()))["tokens"]
    chance = [chance_level(round(left.mean)) for left in tokens]
    lines = [_over_depth("vanilla", probed.vanilla["rho_off"], "#000000")]
    lines += [_over_depth(name, one["rho_off"], STYLE[name][0]) for name, one in probed.reduced.items()]
    lines.append(Line("vanilla on as few tokens", blocks, probed.matched, "#000000", dash=True))
    lines.append(Line("chance on as few tokens", blocks, chance, GREY, dash=True))
    return Panel(f"{probed.model}, r={probed.r} (n={probed.n})", "block", "rho_off", lines)


def _over_depth(name: str, layers: Sequence[Estimate], colour: str) -> Line:
    blocks = list(range(1, len(layers) + 1))
    low, high = [one.low for one in layers], [one.high for one in layers]
    return Line(name, blocks, [one.mean for one in layers], colour, low=low, high=high)
