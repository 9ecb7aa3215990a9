"""One colour and one marker per method, in every figure.

The colours are of middle lightness, 3:1 against white and against the dark page, and those of the methods stay apart
for readers without red or green receptors (tests/report/test_chart.py measures both).
"""

from __future__ import annotations

from typing import NamedTuple

GREY = "#888888"
"""For what is no method: vanilla, chance, a level to compare with."""


class Style(NamedTuple):
    """How a curve looks: its colour, and the marker that tells it apart without colour."""

    colour: str
    marker: str = ""


BLUE, PURPLE, GREEN, ORANGE, RED = (
    Style("#0962de", "circle"),
    Style("#9d67aa", "square"),
    Style("#39a75e", "triangle"),
    Style("#dd7a00", "diamond"),
    Style("#be321e", "star"),
)
METHODS = {
    "vanilla": Style(GREY, "cross"), "tome": BLUE, "tofu": PURPLE, "pitome": GREEN, "mctf": ORANGE, "catis": RED,
    "cluster": Style("#6c90f0", "pentagon"),
}  # fmt: skip
OTHERS = (Style("#b8458a", "square"), Style("#7a6ad8", "triangle"), Style("#8c6d46", "diamond"))
"""For methods that somebody adds, in the order in which a figure names them."""

SIGNALS = {"pairwise": BLUE, "pool": PURPLE, "s_nf": GREEN, "s_cls": ORANGE, "fused": RED}
"""The signals whose rankings a diagnosis compares; they share no figure with methods."""


def style_of(name: str, place: int = 0) -> Style:
    """The style of a method, a signal, or of the place-th curve that is neither.

    Example:
        >>> style_of("catis").colour, style_of("my-method", 1).marker
        ('#be321e', 'triangle')
    """
    return METHODS.get(name) or SIGNALS.get(name) or OTHERS[place % len(OTHERS)]
