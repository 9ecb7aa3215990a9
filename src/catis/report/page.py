"""A report as one self-contained page: text, tables and figures in sections, in light, dark and print."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape

STYLE = """
:root { color-scheme: light dark; --ink: #222; --soft: #5f5f5f; --page: #fafaf8; --paper: #fff; --rule: #d9d9d4;
  --mark: #fff8e6; --bad: #b3261e; }
@media screen and (prefers-color-scheme: dark) { :root { --ink: #e6e6e3; --soft: #a8a8a3; --page: #101214;
  --paper: #16181c; --rule: #3a3d42; --mark: #2b2617; --bad: #ff8a80; } }
body { font: 16px/1.55 system-ui, Helvetica, Arial, sans-serif; color: var(--ink); background: var(--page); margin: 0; }
main { max-width: 920px; margin: 0 auto; padding: 32px 20px 80px; }
h1 { font-size: 30px; margin: 0 0 4px; } h2 { font-size: 21px; margin: 44px 0 8px; }
.lead { font-size: 19px; } .note, figcaption, footer { color: var(--soft); font-size: 13.5px; }
.mark { background: var(--mark); border-left: 4px solid #e0a800; padding: 12px 16px; }
pre { background: var(--paper); border: 1px solid var(--rule); border-radius: 6px; padding: 12px; overflow-x: auto; }
figure { margin: 16px 0; background: var(--paper); border: 1px solid var(--rule); border-radius: 6px; padding: 12px; }
figure img { display: block; max-width: 100%; height: auto; margin: 0 auto; }
.panels { display: flex; flex-wrap: wrap; justify-content: center; }
.panels svg { flex: 1 1 340px; max-width: 560px; height: auto; }
.legend { display: flex; flex-wrap: wrap; gap: 2px 20px; font-size: 13.5px; }
.legend svg { vertical-align: middle; }
.tiles { display: flex; flex-wrap: wrap; gap: 12px; margin: 16px 0; }
.tile { flex: 1 1 220px; background: var(--paper); border: 1px solid var(--rule); border-radius: 6px; padding: 12px; }
.tile strong { display: block; font-size: 22px; } .tile span { color: var(--soft); font-size: 14px; }
.scroll { overflow-x: auto; content-visibility: auto; contain-intrinsic-size: auto 600px; }
table { border-collapse: collapse; background: var(--paper); font-size: 14px; font-variant-numeric: tabular-nums; }
th { text-align: left; border-bottom: 2px solid var(--soft); padding: 6px 9px; font-weight: 600; }
td { padding: 3px 9px; white-space: nowrap; } tr.end td { border-bottom: 1px solid var(--rule); }
th.number, td.number { text-align: right; } b.bad { color: var(--bad); }
table.prose td { white-space: normal; vertical-align: top; padding: 7px 9px; }
th[tabindex] { cursor: pointer; } th[aria-sort=ascending]::after { content: " \\2191"; }
th[aria-sort=descending]::after { content: " \\2193"; }
button.copy { font: inherit; font-size: 12.5px; color: var(--soft); background: none; border: 1px solid var(--rule);
  border-radius: 4px; padding: 1px 8px; margin: 4px 0; cursor: pointer; }
footer { margin-top: 48px; }
@media print { button.copy { display: none; } body { background: #fff; } figure, table, .mark { break-inside: avoid; } }
"""

SCRIPT = """
const number = text => { const found = text.replace(/,/g, '').match(/-?[0-9.]+(e[-+]?[0-9]+)?/i);
  return found ? parseFloat(found[0]) : NaN; };
const compare = (a, b) => { const x = number(a), y = number(b);
  return isNaN(x) || isNaN(y) ? a.localeCompare(b) : x - y; };
function sortBy(table, head, column) {
  const down = head.getAttribute('aria-sort') === 'ascending', body = table.tBodies[0];
  table.querySelectorAll('th').forEach(th => th.removeAttribute('aria-sort'));
  head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
  const rows = Array.from(body.rows).map(row => [row.cells[column].textContent.trim(), row]);
  rows.sort((a, b) => (down ? -1 : 1) * compare(a[0], b[0]));
  body.append(...rows.map(pair => pair[1]));
}
async function copy(table, button) {
  const line = row => Array.from(row.cells).map(cell => cell.textContent.trim()).join('\\t');
  const text = Array.from(table.rows).map(line).join('\\n');
  try { await navigator.clipboard.writeText(text); button.textContent = 'copied'; }
  catch (refused) { getSelection().selectAllChildren(table); button.textContent = 'selected: press Ctrl-C'; }
}
document.querySelectorAll('table').forEach(table => {
  table.querySelectorAll('th').forEach((head, column) => {
    head.tabIndex = 0; head.title = 'sort by this column';
    head.addEventListener('click', () => sortBy(table, head, column));
    head.addEventListener('keydown', event => { if (event.key === 'Enter') sortBy(table, head, column); });
  });
  const button = document.createElement('button');
  button.type = 'button'; button.className = 'copy'; button.textContent = 'copy table';
  button.addEventListener('click', () => copy(table, button));
  table.parentElement.after(button);
});
"""
"""The only script of a page: tables are sorted by a click or a key on a column's name, and copied as text."""


def make_page(title: str, parts: Sequence[str], footer: str = "") -> str:
    """A page that asks for nothing from outside, of parts made by `paragraph`, `chart_figure`, `Table.html` and so on.

    Example:
        >>> make_page("A & B", [paragraph("x < y")]).count("&lt;")
        1
    """
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style></head>\n<body><main>\n<h1>{escape(title)}</h1>\n"
        + "\n".join(parts)
        + f"\n<footer>{escape(footer)}</footer>\n</main>\n<script>{SCRIPT}</script></body></html>\n"
    )


def paragraph(text: str, kind: str = "") -> str:
    """A paragraph: plain, "lead" for the first, "note" for the small print, "mark" for what must not be missed."""
    return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


def tiles(facts: Sequence[tuple[str, str]]) -> str:
    """A few numbers to begin with, each with its words."""
    each = (
        f'<div class="tile"><strong>{escape(value)}</strong><span>{escape(words)}</span></div>'
        for value, words in facts
    )
    return f'<div class="tiles">{"".join(each)}</div>'


def heading(text: str) -> str:
    """The heading of a section."""
    return f"<h2>{escape(text)}</h2>"


def code(text: str) -> str:
    """Commands or code, as they are."""
    return f"<pre><code>{escape(text)}</code></pre>"


def chart_figure(chart: str, caption: str) -> str:
    """What `draw_wrapping` drew, with a caption."""
    return f"<figure>{chart}<figcaption>{escape(caption)}</figcaption></figure>"


def picture_figure(png: bytes, caption: str) -> str:
    """A picture of pixels inside the page, with a caption that is also its alternative text."""
    data = base64.b64encode(png).decode()
    return (
        f'<figure><img alt="{escape(caption)}" src="data:image/png;base64,{data}">'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )
