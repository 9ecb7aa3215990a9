"""Words, style sheet and script of the page. Nothing in them asks for anything from outside."""

from __future__ import annotations

FONTS = ("system-ui", "Helvetica", "Arial", "sans-serif")
MONO = ("ui-monospace", "Consolas", "monospace")

INTRODUCTION = (
    "<h1>catis</h1><p>A Vision Transformer cuts an image into patches, one token each. Reduction merges tokens that "
    "say the same and evicts those that say little, block by block, so that the model is faster. Move the budget.</p>"
)

CSS = """
.tiles { display: flex; flex-wrap: wrap; gap: 10px; }
.tile { flex: 1 1 140px; border: 1px solid var(--border-color-primary); border-radius: 8px; padding: 10px 12px; }
.tile b { display: block; font-size: 1.35em; } .tile span { font-size: 0.9em; }
.said.bad { border-left: 4px solid #b3261e; padding: 8px 12px; }
.sides, .cells { display: flex; flex-wrap: wrap; gap: 12px; } .sides > *, .cells > * { flex: 1 1 260px; }
.cells svg { max-width: 420px; height: auto; } #patches > svg, #patches svg, #depth svg, #signals svg
{ max-width: 100%; height: auto; }
.keys { display: flex; flex-wrap: wrap; gap: 6px; padding: 8px 0; }
table.guesses, .guesses tr { border: 0; }
table.guesses td { border: 0; border-bottom: 1px solid var(--border-color-primary); }
.guesses { border-collapse: collapse; align-self: flex-start; }
.guesses caption { text-align: left; font-weight: 600; padding: 4px 0; }
.guesses td { padding: 2px 6px; } .guesses .number, td.number, th.number { text-align: right; white-space: nowrap; }
.guesses .bar { width: 45%; } .guesses i { display: block; height: 0.8em; background: #0962de; border-radius: 3px; }
.scroll { overflow-x: auto; } .scroll th, .scroll td { padding: 2px 8px; }
.panels { display: flex; flex-wrap: wrap; } .panels svg { flex: 1 1 320px; max-width: 560px; height: auto; }
.legend { display: flex; flex-wrap: wrap; gap: 2px 18px; font-size: 0.9em; }
.dark svg > rect:first-of-type, .dark .chart .paper { fill: transparent; }
.dark svg text { fill: #dddddd; } .dark .chart .grid { stroke: #3a3d42; } .dark .chart .axis { stroke: #dddddd; }
#packed { display: none; }
"""
"""Pictures and charts are drawn for white paper; in the dark they stand on the page itself."""

SAVE_FILE = """(packed) => {
  if (!packed) return;
  const bytes = Uint8Array.from(atob(packed), letter => letter.charCodeAt(0));
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([bytes], {type: 'application/zip'}));
  link.download = 'catis.zip';
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}"""
