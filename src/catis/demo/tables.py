"""The demo's tables: the first two also stand in the terminal, the long ones on the page only."""

from __future__ import annotations

from catis.demo.claims import LEVEL, PAPER_SLOPES, judge_claims, verdict
from catis.demo.findings import Findings, Row
from catis.demo.limits import Limit
from catis.demo.settings import OURS
from catis.evaluate.metrics import Difference
from catis.report.table import Cell, Table


def cost_table(findings: Findings) -> Table:
    """What one can do with so many multiply-adds."""
    rows = []
    for row in findings.at_cost:
        pair = findings.cost_pairs.get(row.method)
        minus = "" if pair is None else _difference(pair)
        accuracy = [f"{100 * share:.1f}" for share in row.accuracy.values()]
        rows.append([row.method, f"{100 / row.ratio:.1f}", *accuracy, minus, f"{row.speed_up:.2f}x"])
    return Table(
        ["what", "MACs %", *(f"{view} %" for view in findings.n), "- constant r", "speed-up"],
        rows,
        f"{findings.settings.leading} at one cost",
        "MACs: multiply-adds, of vanilla's. constant r and budget= are CATIS; budget= removes a larger share the "
        "deeper the block; a recipe is what `catis tune` found on other images; the smaller image is the control. "
        "- constant r: points on the same clean images, * if p < 0.05.",
    )


def method_table(findings: Findings) -> Table:
    """The methods at equal r on the leading model: accuracy at each r, and r_crit."""
    model, limits = findings.settings.leading, findings.limits["clean"]
    amounts, methods = findings.settings.amounts(model), findings.settings.methods
    cells = {(row.method, row.r): row for row in findings.rows if row.model == model}
    rows = [
        [method, *(f"{100 * cells[method, r].accuracy['clean']:.1f}" for r in amounts), _limit(limits[model, method])]
        for method in methods
    ]
    return Table(
        ["clean %", *(f"r={r}" for r in amounts), "r_crit (95 %)"],
        [["vanilla", *([f"{100 * cells['vanilla', 0].accuracy['clean']:.1f}"] * len(amounts)), ""], *rows],
        f"The five methods at equal r, {model}",
        f"n={findings.n['clean']}. The report has every model, the shifted images, speed, and which differences mean "
        f"anything.",
    )


def main_table(findings: Findings) -> Table:
    """Accuracy, cost and measured speed of every method at every amount, and what CATIS is better by."""
    pairs = findings.method_pairs()
    views = [name for view in findings.n for name in (f"{view} %", f"CATIS minus it, {view}")]
    return Table(
        ["model", "r", "method", "left", "GMACs", *views, "measured speed-up", "measured efficiency"],
        [_main_row(row, findings) for row in findings.rows],
        f"Every method at every r ({', '.join(f'{view} n={count}' for view, count in findings.n.items())})",
        f"left: patch tokens after the last block, of 144. CATIS minus it: points on the same images, ± half of the "
        f"95 % bootstrap interval; * marks a difference (exact McNemar p < {LEVEL}), and of {len(pairs)} comparisons "
        f"about {LEVEL * len(pairs):.0f} would be marked by chance. Speed-up: vanilla's processor time over this one's "
        f"on the same batch of {findings.settings.batch}, one thread, median of {findings.rounds} batches; efficiency: "
        f"speed-up over MACs saved.",
        grouped=2,
    )


def _main_row(row: Row, findings: Findings) -> list[str | Cell]:
    cells: list[str | Cell] = []
    for view, share in row.accuracy.items():
        pair = findings.pairs.get((row.model, view, row.r, row.method))
        cells += [f"{100 * share:.1f}", "" if pair is None else _difference(pair)]
    start = [row.model, str(row.r) if row.r else "-", row.method, str(row.tokens), f"{row.gmacs:.3f}"]
    return [*start, *cells, f"{row.speed_up:.2f}x", f"{row.efficiency:.2f}"]


def _difference(pair: Difference) -> Cell:
    marked = verdict(pair) != "no difference"
    text = f"{pair.points:+.1f} ±{(pair.high - pair.low) / 2:.1f}{'*' if marked else ' '}"
    return Cell(text, "bold" if marked else "")


def limit_table(findings: Findings, view: str) -> Table:
    """r_crit of every depth and method, and its fit against 1/L beside the paper's."""
    limits, models, laws, paper = findings.limits[view], findings.settings.models, findings.laws[view], PAPER_SLOPES
    rows = []
    for method, law in laws.items():
        low, high = laws[OURS].minus(law)
        fit = "-" if law.fit is None else f"{law.fit.slope:.0f} ({law.fit.low:.0f}-{law.fit.high:.0f})"
        r_squared = "-" if law.fit is None else f"{law.fit.r_squared:.2f}"
        ours = "" if method == OURS else f"{low:.0f} to {high:.0f}"
        theirs = str(paper[view].get(method, paper[view]["others"]))
        rows.append([method, *(_limit(limits[model, method]) for model in models), fit, r_squared, ours, theirs])
    return Table(
        ["method", *models, "k (95 %, depths)", "R2", "k of CATIS minus it", "paper's k"],
        rows,
        f"r_crit, {view}: smallest r that loses more than 5 points (n={findings.n[view]}), and k of r_crit = k / L",
        "By bisection; in brackets 95 % of bootstrap samples of the images, accuracy interpolated between the r tried. "
        "~: accuracy did not fall with every r tried, so bisection may have missed a smaller one. k is fitted through "
        "the origin; where the interval of a difference spans 0, none is shown. The paper has one k for all baselines.",
    )


def _limit(limit: Limit) -> str:
    r = f"> {limit.r_max}" if limit.r is None else str(limit.r)
    low, high = (f"> {limit.r_max}" if end > limit.r_max else str(end) for end in limit.interval)
    return f"{r}{'' if limit.monotone else '~'} ({low}-{high})"


def claim_table(findings: Findings) -> Table:
    """The paper's claims beside ours."""
    rows = [[c.claim, c.paper, c.here, Cell(c.verdict, "bold")] for c in judge_claims(findings)]
    return Table(
        ["claim", "paper", "here", "comes out?"], rows, "The paper's claim beside this measurement", prose=True
    )
