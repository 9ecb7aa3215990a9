"""The demo's tables and words, as plain text: the terminal and the page print the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from catis.demo.claims import PAPER_SLOPES, Claim
from catis.demo.compare import LEVEL, Paired
from catis.demo.findings import OURS, Findings, Row
from catis.demo.limits import Limit
from catis.diagnostics.critical import DepthFit

__all__ = ["TextTable", "claim_table", "law_table", "limit_table", "main_table", "pair_table"]


@dataclass(frozen=True)
class TextTable:
    """A table of text.

    Attributes:
        title: Above it.
        header: Column names.
        rows: Cells.
        bold: (row, column) of the cells to stress.
        ends: Rows after which a section ends.
        note: Below it.
        words: Whether the cells are sentences and may wrap.
    """

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    bold: frozenset[tuple[int, int]] = frozenset()
    ends: frozenset[int] = frozenset()
    note: str = ""
    words: bool = field(default=False)


def main_table(found: Findings) -> TextTable:
    """Accuracy, cost and measured speed of every method at every amount."""
    rows = found.rows
    cells = [[*_cells(row)] for row in rows]
    groups = [(row.model, row.r) for row in rows]
    best = {
        (at, 5 + column)
        for at, row in enumerate(rows)
        for column, view in enumerate(found.n)
        if row.r and row.accuracy[view] == max(o.accuracy[view] for o in rows if (o.model, o.r) == groups[at])
    }
    ends = {at for at, group in enumerate(groups) if at + 1 == len(groups) or groups[at + 1] != group}
    n = ", ".join(f"{view} n={count}" for view, count in found.n.items())
    return TextTable(
        f"Five methods at equal r ({n})",
        ["model", "r", "method", "left", "GMACs", *(f"{view} %" for view in found.n), "speed-up", "effic."],
        cells,
        frozenset(best),
        frozenset(ends),
        f"left: patch tokens after the last block, of 144. speed-up: measured, vanilla's processor time over this "
        f"one's on the same batch of {found.settings.batch}, one thread, median of {found.rounds} batches. "
        f"effic.: speed-up over MACs saved. Bold: highest of the five; the next table says whether that means "
        f"anything.",
    )


def _cells(row: Row) -> Sequence[str]:
    accuracy = [f"{100 * share:.1f}" for share in row.accuracy.values()]
    amount = str(row.r) if row.r else "-"
    speed = [f"{row.speed_up[0]:.2f}x", f"{row.efficiency:.2f}"]
    return [row.model, amount, row.method, str(row.tokens), f"{row.gmacs:.3f}", *accuracy, *speed]


def pair_table(found: Findings) -> TextTable:
    """CATIS minus each other method, on the same images."""
    others = [method for method in found.settings.methods if method != OURS]
    keys = list(dict.fromkeys((model, view, r) for model, view, r, _ in found.pairs))
    rows = []
    for model, view, r in keys:
        pairs = [found.pairs[model, view, r, method] for method in others]
        cells = [f"{100 * pair.difference:+.1f} ±{50 * (pair.high - pair.low):.1f}{_mark(pair)}" for pair in pairs]
        rows.append([model, view, str(r), *cells])
    ends = {at for at, key in enumerate(keys) if at + 1 == len(keys) or keys[at + 1][:2] != key[:2]}
    bold = {(y, x) for y, row in enumerate(rows) for x, cell in enumerate(row) if x > 2 and cell.endswith("*")}
    return TextTable(
        "CATIS minus each other method, points of accuracy on the same images",
        ["model", "view", "r", *(f"- {method}" for method in others)],
        rows,
        frozenset(bold),
        frozenset(ends),
        f"± is the 95 % interval over images. * marks a difference (exact McNemar p < {LEVEL}); without it there is no "
        "difference that so few images can show. "
        f"Of {len(found.pairs)} comparisons about {LEVEL * len(found.pairs):.0f} would be marked by chance.",
    )


def _mark(pair: Paired) -> str:
    return " " if pair.verdict == "no difference" else "*"


def limit_table(found: Findings, view: str) -> TextTable:
    """r_crit of every depth and method."""
    limits, models = found.limits[view], found.settings.models
    rows = [[method, *(_limit(limits[model, method]) for model in models)] for method in found.settings.methods]
    return TextTable(
        f"r_crit, {view}: smallest r that loses more than 5 points (n={found.n[view]})",
        ["method", *(f"{model}" for model in models)],
        rows,
        note="By bisection; in brackets 95 % of bootstrap samples of the images, accuracy interpolated between the r "
        "tried. ~: accuracy did not fall with every r tried, so bisection may have missed a smaller one.",
    )


def _limit(limit: Limit) -> str:
    found = f"> {limit.r_max}" if limit.r is None else str(limit.r)
    low, high = (f"> {limit.r_max}" if end > limit.r_max else str(end) for end in limit.interval)
    return f"{found}{'' if limit.monotone else '~'} ({low}-{high})"


def law_table(found: Findings, view: str) -> TextTable:
    """The fit of r_crit against 1/L."""
    laws, paper = found.laws[view], PAPER_SLOPES[view]
    rows = []
    for method, law in laws.items():
        low, high = laws[OURS].minus(law)
        ours = "" if method == OURS else f"{low:.0f} to {high:.0f}"
        rows.append([method, *_fit(law.fit), ours, str(paper.get(method, paper["others"]))])
    return TextTable(
        f"r_crit = k / L, {view}",
        ["method", "k (95 %, depths)", "R2", "depths", "CATIS minus it", "paper's k"],
        rows,
        note="Fitted through the origin. 'CATIS minus it': 95 % of bootstrap samples of the same images; where it "
        "spans 0, no difference is shown. The paper gives one k for all baselines.",
    )


def _fit(fit: DepthFit | None) -> list[str]:
    if fit is None:
        return ["-"] * 3
    return [f"{fit.slope:.0f} ({fit.low:.0f}-{fit.high:.0f})", f"{fit.r_squared:.2f}", str(fit.n)]


def claim_table(claims: Sequence[Claim]) -> TextTable:
    """The paper's claims beside ours."""
    rows = [[one.claim, one.paper, one.here, one.verdict] for one in claims]
    return TextTable(
        "The paper's claim beside this measurement",
        ["claim", "paper", "here", "comes out?"],
        rows,
        bold=frozenset((at, 3) for at in range(len(rows))),
        ends=frozenset(range(len(rows))),
        words=True,
    )
