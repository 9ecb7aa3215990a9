"""The demo's figures. None contains a timing, so they are the same bytes for the same seed on one machine."""

from __future__ import annotations

from catis.demo.at_cost import SMALLER
from catis.demo.claims import PAPER_SLOPES
from catis.demo.findings import Findings, Row
from catis.demo.probes import CORRUPTION, Probed
from catis.demo.settings import OURS
from catis.diagnostics.critical import DROP
from catis.pictures.formats import png_bytes
from catis.report.chart import Panel, draw
from catis.report.colours import GREY, OTHERS, style_of
from catis.report.diagnosis import off_lines, signal_lines
from catis.report.marks import Line

TITLES = {
    "gain": "What one gains", "accuracy": "Accuracy against r", "r_crit": "r_crit against 1/L",
    "rho_s": "rho_s over depth", "rho_off": "rho_off over depth",
}  # fmt: skip


def draw_figures(findings: Findings) -> dict[str, bytes]:
    """All figures by file name."""
    charts = {f"{name}.svg": draw(drawn, TITLES[name]).encode() for name, drawn in panels(findings).items()}
    return charts | {"tokens.png": png_bytes(findings.picture)}


def panels(findings: Findings) -> dict[str, list[Panel]]:
    """The charts by name."""
    return {
        "gain": [_gain(findings)],
        "accuracy": [_accuracy(findings, m, view) for view in findings.n for m in findings.settings.compared],
        "r_crit": [_critical(findings, view) for view in findings.limits],
        "rho_s": [_consistency(probed) for probed in findings.probed.values()],
        "rho_off": [_correlation(probed) for probed in findings.probed.values()],
    }


def _gain(findings: Findings) -> Panel:
    """Accuracy of the leading model against what it costs."""
    model = findings.settings.leading
    rows = [row for row in findings.rows if row.model == model and row.method in ("vanilla", OURS)]
    rows.sort(key=lambda row: row.gmacs)
    lines = [Line("catis, constant r", *_shares(rows), *style_of(OURS), labels=[f"r={row.r}" for row in rows])]
    for place, row in enumerate(findings.at_cost[1:]):
        style = style_of("vanilla") if row.method == SMALLER else OTHERS[place % len(OTHERS)]
        lines.append(Line(row.method, *_shares([row]), *style, joined=False))
    return Panel(f"{model}, clean (n={findings.n['clean']})", "multiply-adds, % of vanilla", "accuracy, %", lines)


def _shares(rows: list[Row]) -> tuple[list[float], list[float]]:
    return [100 / row.ratio for row in rows], [100 * row.accuracy["clean"] for row in rows]


def _accuracy(findings: Findings, model: str, view: str) -> Panel:
    curves = {method: findings.curves[model, view, method] for method in findings.settings.methods}
    vanilla = next(iter(curves.values()))[0]
    ends = [0, max(max(curve) for curve in curves.values())]
    lines = [Line("vanilla - 5 points", ends, [100 * (vanilla - DROP)] * 2, GREY, dash="dashed")]
    for method, curve in curves.items():
        labels = [f"{method}, r={r}: {100 * curve[r]:.1f} %" for r in sorted(curve)]
        values = [100 * curve[r] for r in sorted(curve)]
        lines.append(Line(method, sorted(curve), values, *style_of(method), labels=labels))
    title = f"{model}, {view} (n={findings.n[view]})"
    return Panel(title, "r, patch tokens removed per block", "accuracy, %", lines)


def _critical(findings: Findings, view: str) -> Panel:
    lines = [line for method in findings.settings.methods for line in _law(findings, view, method)]
    for name, slope in PAPER_SLOPES[view].items():
        colour = GREY if name == "others" else style_of(name).colour
        lines.append(_through_origin(f"paper {name}: {slope} / L", slope, colour, findings, "dashed"))
    title = f"{view} (n={findings.n[view]} images, {len(findings.settings.models)} depths)"
    return Panel(title, "1 / L, for L blocks", "r_crit, tokens per block", lines)


def _law(findings: Findings, view: str, method: str) -> list[Line]:
    """The points of a method, those without r_crit left out, and its fit."""
    mine = [limit for limit in findings.limits[view].values() if limit.method == method]
    known = sorted((1 / limit.depth, float(limit.r), limit.depth) for limit in mine if limit.r is not None)
    style, fit = style_of(method), findings.laws[view][method].fit
    name = method if fit is None else f"{method}: {fit.slope:.0f} / L"
    labels = [f"{method}, L={depth}: r_crit {r:.0f}" for _, r, depth in known]
    points = Line(name, [x for x, _, _ in known], [r for _, r, _ in known], *style, joined=False, labels=labels)
    return [points] if fit is None else [points, _through_origin(name, fit.slope, style.colour, findings)]


def _through_origin(name: str, slope: float, colour: str, findings: Findings, dash: str = "solid") -> Line:
    ends = [0.0, max(1 / limit.depth for limits in findings.limits.values() for limit in limits.values())]
    return Line(name, ends, [slope * x for x in ends], colour, dash=dash)


def _consistency(probed: Probed) -> Panel:
    title = f"{probed.model}, {CORRUPTION[0]} {CORRUPTION[1]} (n={probed.n})"
    return Panel(title, "block", "rho_s, clean against noisy", signal_lines(probed.consistency, first=1))


def _correlation(probed: Probed) -> Panel:
    lines = off_lines(probed.vanilla, probed.reduced, first=1)
    return Panel(f"{probed.model}, r={probed.r} (n={probed.n})", "block", "rho_off", lines)
