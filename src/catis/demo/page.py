"""The report: one self-contained page with the figures inside."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from html import escape

from catis.demo.claims import judge_claims
from catis.demo.figures import draw_figures
from catis.demo.findings import Findings
from catis.demo.numbers import numbers_json, table_csv
from catis.demo.tables import (
    TextTable,
    claim_table,
    law_table,
    limit_table,
    main_table,
    pair_table,
)
from catis.demo.words import honest_words, introduction, summary

__all__ = ["report_files"]

STYLE = """
body { font: 16px/1.55 system-ui, Helvetica, Arial, sans-serif; color: #222; background: #fafaf8; margin: 0; }
main { max-width: 920px; margin: 0 auto; padding: 32px 20px 80px; }
h1 { font-size: 30px; margin: 0 0 4px; } h2 { font-size: 21px; margin: 44px 0 8px; }
p.lead { color: #555; margin-top: 0; } .note { color: #666; font-size: 13.5px; }
.honest { background: #fff8e6; border-left: 4px solid #e0a800; padding: 12px 16px; }
figure { margin: 16px 0; background: #fff; border: 1px solid #e6e6e2; border-radius: 6px; padding: 12px; }
figure svg, figure img { display: block; max-width: 100%; height: auto; margin: 0 auto; }
figcaption { color: #666; font-size: 13.5px; margin-top: 8px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; background: #fff; font-size: 14px; font-variant-numeric: tabular-nums; width: 100%; }
th { text-align: right; border-bottom: 2px solid #999; padding: 6px 9px; font-weight: 600; }
td { text-align: right; padding: 3px 9px; white-space: nowrap; } tr.end td { border-bottom: 1px solid #ddd; }
table.words th, table.words td { text-align: left; white-space: normal; vertical-align: top; padding: 7px 9px; }
footer { margin-top: 48px; color: #777; font-size: 13px; }
"""


def report_files(found: Findings, told: Mapping[str, str]) -> dict[str, bytes]:
    """Every file of the demo's folder by name.

    Args:
        found: What was measured.
        told: Facts of the run to print at the end of the page, such as versions.
    """
    figures = draw_figures(found)
    page = _page(found, figures, told)
    return {
        "report.html": page.encode(),
        **figures,
        "numbers.json": numbers_json(found).encode(),
        "table.csv": table_csv(found).encode(),
    }


def _page(found: Findings, figures: Mapping[str, bytes], told: Mapping[str, str]) -> str:
    body = [
        "<h1>catis demo</h1>",
        f'<p class="lead">{escape(introduction(found.settings))}</p>',
        "<ul>" + "".join(f"<li>{escape(sentence)}</li>" for sentence in summary(found)) + "</ul>",
        f'<p class="honest">{escape(honest_words(found))}</p>',
        "<h2>What CATIS kept, merged and evicted</h2>",
        _figure(
            figures, "tokens.png", "White: evicted. Flat: merged, in the mean colour of the group. " + found.caption
        ),
        "<h2>The five methods at equal r</h2>",
        _figure(figures, "accuracy.svg", "Every r that was measured; the dashed line is 5 points below vanilla."),
        *(_table(table) for table in (main_table(found), pair_table(found))),
        "<h2>When each depth collapses</h2>",
        _figure(
            figures, "r_crit.svg", "Points: measured. Lines: k / L through the origin. Dashed: the paper's slopes."
        ),
        *(_table(table) for view in found.limits for table in (limit_table(found, view), law_table(found, view))),
        "<h2>Is the ranking steady under noise?</h2>",
        _figure(
            figures, "rho_s.svg", "Spearman between the rankings of a clean and a noisy image; band: 95 % over images."
        ),
        "<h2>Do the features lose their independence?</h2>",
        _figure(figures, "rho_off.svg", "Fewer tokens raise rho_off by themselves: compare with the dashed lines."),
        "<h2>The paper beside this run</h2>",
        _table(claim_table(judge_claims(found))),
        f"<footer>{escape('; '.join(f'{name} {value}' for name, value in told.items()))}. The models "
        f"are in the package (docs/zoo.md). Figures and numbers.json hold no timing and are the same for the same seed "
        f"on one machine; speed-up and efficiency are measured and vary.</footer>",
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><title>catis demo</title>'
        f"<style>{STYLE}</style></head>\n<body><main>\n" + "\n".join(body) + "\n</main></body></html>\n"
    )


def _figure(figures: Mapping[str, bytes], name: str, caption: str) -> str:
    content = figures[name]
    if name.endswith(".svg"):
        drawn = content.decode()
    else:
        drawn = f'<img alt="{escape(caption)}" src="data:image/png;base64,{base64.b64encode(content).decode()}">'
    return f"<figure>{drawn}<figcaption>{escape(caption)}</figcaption></figure>"


def _table(table: TextTable) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in table.header)
    rows = []
    for y, row in enumerate(table.rows):
        cells = (f"<b>{escape(c)}</b>" if (y, x) in table.bold else escape(c) for x, c in enumerate(row))
        rows.append(
            f"<tr{' class=end' if y in table.ends else ''}>" + "".join(f"<td>{c}</td>" for c in cells) + "</tr>"
        )
    kind = ' class="words"' if table.words else ""
    note = f'<p class="note">{escape(table.note)}</p>' if table.note else ""
    return (
        f"<h3>{escape(table.title)}</h3><div class=scroll><table{kind}><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>{note}"
    )
