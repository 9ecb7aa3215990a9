"""An answer as HTML for the page: numbers, classes side by side, pictures of the patches at a block."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from catis.app.answering import Answer, Guess
from catis.pictures.canvas import Canvas, legend_parts
from catis.pictures.drawing import Look, layout_cells
from catis.pictures.formats import as_svg
from catis.pictures.tracing import Trace

NO_PICTURE = (
    "Only the exported file is here, which does not tell what happens inside it. To see the patches, also pass the "
    "model that it was made of with --model."
)


def sentence(text: str, kind: str = "") -> str:
    """A line of text: plain, or "bad" for what went wrong."""
    role = "alert" if kind == "bad" else "status"
    return f'<p class="said {kind}" role="{role}">{escape(text)}</p>'


def numbers_view(answer: Answer) -> str:
    """What one gains: multiply-adds, tokens, time, and whether the class stayed."""
    tiles = []
    if answer.cost is not None:
        cost = answer.cost
        share = f"{100 * cost.reduced / cost.vanilla:.0f} %"
        tiles.append(_tile("macs", share, f"of the multiply-adds: {cost.reduced:.3g} instead of {cost.vanilla:.3g} G"))
        tiles.append(_tile("tokens", f"{cost.tokens[-1]} of {cost.patches}", "patch tokens left after the last block"))
    tiles.append(_time_tile(answer))
    if answer.change:
        same = answer.before[0].label == answer.after[0].label
        tiles.append(_tile("class", "same class" if same else "another class", answer.change))
    return f'<div class="tiles">{"".join(tiles)}</div>'


def classes_view(answer: Answer) -> str:
    """The most likely classes without and with reduction, side by side."""
    if not answer.after:
        return sentence("This model has no classifier, so there are no classes to compare.")
    parts = [("without reduction", answer.before)] if answer.before else []
    return (
        '<div class="sides">' + "".join(_bars(*part) for part in [*parts, ("with reduction", answer.after)]) + "</div>"
    )


def patches_view(answer: Answer, block: int) -> str:
    """The image, and what is left of it after a block, counted from 1."""
    if answer.traced is None:
        return sentence(NO_PICTURE)
    cells = _cells(answer.traced, block)
    return _side_by_side(cells[:2]) + _side_by_side(legend_parts("dim"), "keys")


def signals_view(answer: Answer, block: int) -> str:
    """What the method went by in a block: a heat map for each signal."""
    if answer.traced is None:
        return sentence(NO_PICTURE)
    known = [place for place in range(1, min(block, len(answer.traced)) + 1) if answer.traced[place - 1].scores]
    if not known:
        return sentence(f"No block up to {block} removed anything, so there was nothing to go by.")
    earlier = "" if known[-1] == block else f"Block {block} removed nothing; this is block {known[-1]}. "
    said = sentence(f"{earlier}Blue is low, yellow is high; white: the patch had gone before.")
    return _side_by_side(_cells(answer.traced, known[-1])[2:]) + said


def depth_view(answer: Answer) -> str:
    """Four depths at a glance, and the numbers of every block."""
    if answer.traced is None:
        return sentence(NO_PICTURE)
    canvas = answer.traced.canvas(look=Look(heat_maps=False))
    return _svg(canvas, "patches over the depth of the model") + answer.traced.table().html()


def _tile(name: str, value: str, words: str) -> str:
    return f'<div class="tile" id="tile-{name}"><b>{escape(value)}</b><span>{escape(words)}</span></div>'


def _time_tile(answer: Answer) -> str:
    how = f"median of {answer.rounds}, one image at a time"
    if answer.ms_before is None:
        return _tile("time", f"{answer.ms_after:.1f} ms", f"in ONNX Runtime; {how}")
    where = " (PyTorch; the file runs in ONNX Runtime)" if answer.settings.model.endswith(".onnx") else ""
    words = f"{answer.ms_after:.1f} ms instead of {answer.ms_before:.1f}{where}; {how}, in turns"
    return _tile("time", f"{answer.ms_before / answer.ms_after:.2f} times as fast", words)


def _bars(title: str, guesses: Sequence[Guess]) -> str:
    rows = "".join(
        f'<tr><td>{escape(guess.label)}</td><td class="number">{100 * guess.share:.1f} %</td>'
        f'<td class="bar" aria-hidden="true"><i style="width:{100 * guess.share:.1f}%"></i></td></tr>'
        for guess in guesses
    )
    return f'<table class="guesses"><caption>{escape(title)}</caption><tbody>{rows}</tbody></table>'


def _cells(traced: Trace, block: int) -> list[Canvas]:
    (layout,) = traced.layouts(0, [min(max(block, 1), len(traced))])
    return layout_cells(traced.images[0], layout)


def _side_by_side(cells: Sequence[Canvas], kind: str = "cells") -> str:
    drawn = (_svg(cell, next(item.text for item in cell.items if hasattr(item, "text"))) for cell in cells)
    return f'<div class="{kind}">{"".join(drawn)}</div>'


def _svg(canvas: Canvas, title: str) -> str:
    return as_svg(canvas, title).decode()
