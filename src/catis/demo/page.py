"""The demo's folder: the report, what one gains first and caveats at the end, and its numbers for other programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from catis.demo.claims import judge_claims
from catis.demo.figures import TITLES, draw_figures, panels
from catis.demo.findings import Findings
from catis.demo.tables import claim_table, cost_table, limit_table, main_table
from catis.demo.words import CAVEAT, GLOSSARY, NEXT, gains, honest_words, introduction
from catis.diagnostics.report import plain_values
from catis.report.chart import draw_wrapping
from catis.report.page import chart_figure, code, heading, make_page, paragraph, picture_figure, tiles

CAPTIONS = {
    "accuracy": "Every r that was measured; the dashed line is 5 points below vanilla.",
    "r_crit": "Points: measured. Lines: k / L through the origin. Dashed: the paper's slopes.",
    "rho_s": "Spearman's correlation; band: 95 % over images.",
    "rho_off": "Band: 95 % over images.",
    "gain": "Fewer multiply-adds to the left. The smaller image is the control: the same model on fewer pixels.",
}
TOKENS = "Dark: evicted. Outlined: merged, in the mean colour of the group. "
LEFT_OUT = ("picture", "caption", "rounds", "speed_up", "draws")
"""Timings, what has a file of its own, and a thousand bootstrap samples each."""


def report_files(findings: Findings, told: Mapping[str, str]) -> dict[str, bytes]:
    """Every file of the demo's folder by name."""
    figures = draw_figures(findings)
    return {
        "report.html": _page(findings, figures["tokens.png"], told).encode(),
        **figures,
        "numbers.json": numbers_json(findings).encode(),
        "table.csv": main_table(findings).csv().encode(),
    }


def _page(findings: Findings, picture: bytes, told: Mapping[str, str]) -> str:
    charts = {
        name: chart_figure(draw_wrapping(drawn, TITLES[name]), CAPTIONS[name])
        for name, drawn in panels(findings).items()
    }
    parts = [
        tiles(gains(findings)),
        charts["gain"],
        paragraph(CAVEAT, "note"),
        paragraph(introduction(findings.settings)),
        cost_table(findings).html(),
        heading("What CATIS kept, merged and evicted"),
        picture_figure(picture, TOKENS + findings.caption),
        heading("The five methods at equal r"),
        charts["accuracy"],
        main_table(findings).html(),
        heading("When each depth collapses"),
        paragraph(GLOSSARY["r_crit"]),
        charts["r_crit"],
        *(limit_table(findings, view).html() for view in findings.limits),
        heading("Is the ranking steady under noise?"),
        paragraph(GLOSSARY["rho_s"]),
        charts["rho_s"],
        heading("Do the features lose their independence?"),
        paragraph(GLOSSARY["rho_off"]),
        charts["rho_off"],
        heading("The paper beside this run"),
        claim_table(findings).html(),
        heading("Now your model"),
        code(NEXT),
        heading("What this shows and what not"),
        paragraph(honest_words(findings)),
    ]
    footer = (
        f"{'; '.join(f'{name} {value}' for name, value in told.items())}. The models are in the package (docs/zoo.md). "
        f"Figures and numbers.json hold no timing and are the same for the same seed on one machine; speed-up and "
        f"efficiency are measured and vary."
    )
    return make_page("catis demo", parts, footer)


def numbers_json(findings: Findings) -> str:
    """Everything but the timings: the same text for the same seed on one machine."""
    claims = [claim._asdict() for claim in judge_claims(findings)[:-1]]  # the last rests on timings
    return json.dumps(plain_values(_plain(findings) | {"claims": claims}), indent=1, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    """Dataclasses as mappings; a mapping with several keys in one, such as (model, view, r), as a list of both."""
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value) if field.name not in LEFT_OUT}
    if isinstance(value, Mapping) and any(isinstance(key, tuple) for key in value):
        return [{"of": list(key), "is": _plain(inner)} for key, inner in value.items()]
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value
