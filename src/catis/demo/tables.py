"""The demo's tables: the terminal and the page show the same."""

from __future__ import annotations

from catis.demo.claims import LEVEL, PAPER_SLOPES, judge_claims, verdict
from catis.demo.findings import Findings, Row
from catis.demo.limits import Limit
from catis.demo.settings import OURS
from catis.diagnostics.critical import DepthFit
from catis.evaluate.metrics import Difference
from catis.report.table import Cell, Table

__all__ = ["claim_table", "law_table", "limit_table", "main_table", "pair_table"]


def main_table(findings: Findings) -> Table:
    """Accuracy, cost and measured speed of every method at every amount."""
    n = ", ".join(f"{view} n={count}" for view, count in findings.n.items())
    return Table(
        ["model", "r", "method", "left", "GMACs", *(f"{view} %" for view in findings.n), "speed-up", "effic."],
        [_main_row(row, findings) for row in findings.rows],
        f"Five methods at equal r ({n})",
        f"left: patch tokens after the last block, of 144. speed-up: measured, vanilla's processor time over this "
        f"one's on the same batch of {findings.settings.batch}, one thread, median of {findings.rounds} batches. "
        f"effic.: speed-up over MACs saved. Bold: highest of the five; the next table says whether that means "
        f"anything.",
        grouped=2,
    )


def _main_row(row: Row, findings: Findings) -> list[str | Cell]:
    rivals = [other for other in findings.rows if (other.model, other.r) == (row.model, row.r)]
    accuracy = [
        Cell(f"{100 * share:.1f}", "bold" if row.r and share == max(o.accuracy[view] for o in rivals) else "")
        for view, share in row.accuracy.items()
    ]
    start = [row.model, str(row.r) if row.r else "-", row.method, str(row.tokens), f"{row.gmacs:.3f}"]
    return [*start, *accuracy, f"{row.speed_up[0]:.2f}x", f"{row.efficiency:.2f}"]


def pair_table(findings: Findings) -> Table:
    """CATIS minus each other method, on the same images."""
    others = [method for method in findings.settings.methods if method != OURS]
    pairs = findings.method_pairs()
    keys = list(dict.fromkeys((model, view, r) for model, view, r, _ in pairs))
    return Table(
        ["model", "view", "r", *(f"- {method}" for method in others)],
        [[*map(str, key), *(_difference(pairs[(*key, method)]) for method in others)] for key in keys],
        "CATIS minus each other method, points of accuracy on the same images",
        f"± is half of the 95 % bootstrap interval over images. * marks a difference (exact McNemar p < {LEVEL}); "
        f"without it there is no difference that so few images can show. "
        f"Of {len(pairs)} comparisons about {LEVEL * len(pairs):.0f} would be marked by chance.",
        grouped=2,
    )


def _difference(pair: Difference) -> Cell:
    marked = verdict(pair) != "no difference"
    text = f"{pair.points:+.1f} ±{(pair.high - pair.low) / 2:.1f}{'*' if marked else ' '}"
    return Cell(text, "bold" if marked else "")


def limit_table(findings: Findings, view: str) -> Table:
    """r_crit of every depth and method."""
    limits, models = findings.limits[view], findings.settings.models
    return Table(
        ["method", *models],
        [[method, *(_limit(limits[model, method]) for model in models)] for method in findings.settings.methods],
        f"r_crit, {view}: smallest r that loses more than 5 points (n={findings.n[view]})",
        "By bisection; in brackets 95 % of bootstrap samples of the images, accuracy interpolated between the r "
        "tried. ~: accuracy did not fall with every r tried, so bisection may have missed a smaller one.",
    )


def _limit(limit: Limit) -> str:
    r = f"> {limit.r_max}" if limit.r is None else str(limit.r)
    low, high = (f"> {limit.r_max}" if end > limit.r_max else str(end) for end in limit.interval)
    return f"{r}{'' if limit.monotone else '~'} ({low}-{high})"


def law_table(findings: Findings, view: str) -> Table:
    """The fit of r_crit against 1/L."""
    laws, paper = findings.laws[view], PAPER_SLOPES[view]
    rows = []
    for method, law in laws.items():
        low, high = laws[OURS].minus(law)
        ours = "" if method == OURS else f"{low:.0f} to {high:.0f}"
        rows.append([method, *_fit(law.fit), ours, str(paper.get(method, paper["others"]))])
    return Table(
        ["method", "k (95 %, depths)", "R2", "depths", "CATIS minus it", "paper's k"],
        rows,
        f"r_crit = k / L, {view}",
        "Fitted through the origin. 'CATIS minus it': 95 % of bootstrap samples of the same images; where it "
        "spans 0, no difference is shown. The paper gives one k for all baselines.",
    )


def _fit(fit: DepthFit | None) -> list[str]:
    if fit is None:
        return ["-"] * 3
    return [f"{fit.slope:.0f} ({fit.low:.0f}-{fit.high:.0f})", f"{fit.r_squared:.2f}", str(fit.n)]


def claim_table(findings: Findings) -> Table:
    """The paper's claims beside ours."""
    rows = [[c.claim, c.paper, c.here, Cell(c.verdict, "bold")] for c in judge_claims(findings)]
    return Table(
        ["claim", "paper", "here", "comes out?"], rows, "The paper's claim beside this measurement", prose=True
    )
