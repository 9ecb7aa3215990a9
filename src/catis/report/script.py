"""The only script of a page: tables are sorted by a click or a key on a column's name, and copied as text."""

from __future__ import annotations

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
