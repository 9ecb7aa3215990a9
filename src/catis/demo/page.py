"""The demo's report: what one gains first, then how it was measured, and the caveats at the end."""

from __future__ import annotations

from collections.abc import Mapping

from catis.demo.figures import TITLES, draw_figures, panels
from catis.demo.findings import Findings
from catis.demo.numbers import numbers_json, table_csv
from catis.demo.tables import claim_table, law_table, limit_table, main_table, pair_table
from catis.demo.words import NEXT, honest_words, introduction, summary, sweet_spots
from catis.report.chart import draw_wrapping
from catis.report.page import bullets, chart_figure, code, heading, make_page, paragraph, picture_figure

__all__ = ["report_files"]

CAPTIONS = {
    "accuracy": "Every r that was measured; the dashed line is 5 points below vanilla.",
    "r_crit": "Points: measured. Lines: k / L through the origin. Dashed: the paper's slopes.",
    "rho_s": "Spearman correlation between the rankings of a clean and a noisy image; band: 95 % over images.",
    "rho_off": "Mean correlation between tokens. Fewer tokens raise it by themselves: compare with the dashed lines.",
}
TOKENS = "Dark: evicted. Outlined: merged, in the mean colour of the group. "


def report_files(findings: Findings, told: Mapping[str, str]) -> dict[str, bytes]:
    """Every file of the demo's folder by name.

    Args:
        findings: What was measured.
        told: Facts of the run to print at the end of the page, such as versions.
    """
    figures = draw_figures(findings)
    return {
        "report.html": _page(findings, figures["tokens.png"], told).encode(),
        **figures,
        "numbers.json": numbers_json(findings).encode(),
        "table.csv": table_csv(findings).encode(),
    }


def _page(findings: Findings, picture: bytes, told: Mapping[str, str]) -> str:
    charts = {
        name: chart_figure(draw_wrapping(drawn, TITLES[name]), CAPTIONS[name])
        for name, drawn in panels(findings).items()
    }
    parts = [
        *(paragraph(sentence, "lead") for sentence in sweet_spots(findings)),
        charts["accuracy"],
        paragraph(introduction(findings.settings)),
        bullets(summary(findings)),
        heading("What CATIS kept, merged and evicted"),
        picture_figure(picture, TOKENS + findings.caption),
        heading("The five methods at equal r"),
        main_table(findings).html(),
        pair_table(findings).html(),
        heading("When each depth collapses"),
        charts["r_crit"],
        *(table(findings, view).html() for view in findings.limits for table in (limit_table, law_table)),
        heading("Is the ranking steady under noise?"),
        charts["rho_s"],
        heading("Do the features lose their independence?"),
        charts["rho_off"],
        heading("The paper beside this run"),
        claim_table(findings).html(),
        paragraph(honest_words(findings), "mark"),
        heading("Now your model"),
        code(NEXT),
    ]
    footer = (
        f"{'; '.join(f'{name} {value}' for name, value in told.items())}. The models are in the package (docs/zoo.md). "
        f"Figures and numbers.json hold no timing and are the same for the same seed on one machine; speed-up and "
        f"efficiency are measured and vary."
    )
    return make_page("catis demo", parts, footer)
