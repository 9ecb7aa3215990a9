"""One colour and one marker per method, in every figure. Tol's palette, told apart by colour-blind readers too.

The colours are of middle lightness: at least 3:1 against white and against the dark page (tests/report).
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["GREY", "METHODS", "SIGNALS", "Style", "style_of"]

GREY = "#888888"
"""For what is no method: vanilla, chance, a level to compare with."""


class Style(NamedTuple):
    """How a curve looks: its colour, and the marker that tells it apart without colour."""

    colour: str
    marker: str = ""


METHODS = {
    "vanilla": Style(GREY, "cross"),
    "tome": Style("#4477aa", "circle"),
    "tofu": Style("#0a90b5", "square"),
    "pitome": Style("#228833", "triangle"),
    "mctf": Style("#b8860b", "diamond"),
    "catis": Style("#cc3311", "star"),
}
OTHERS = (Style("#aa3377", "square"), Style("#7a6ad8", "triangle"), Style("#8c6d46", "diamond"))
"""For methods that somebody adds, in the order in which a figure names them."""

SIGNALS = {
    "pairwise": Style("#4477aa", "circle"),
    "pool": Style("#0a90b5", "square"),
    "s_nf": Style("#228833", "triangle"),
    "s_cls": Style("#b8860b", "diamond"),
    "fused": Style("#cc3311", "star"),
}


def style_of(name: str, place: int = 0) -> Style:
    """The style of a method, a signal, or of the place-th curve that is neither.

    Example:
        >>> style_of("catis").colour, style_of("my-method", 1).marker
        ('#cc3311', 'triangle')
    """
    return METHODS.get(name) or SIGNALS.get(name) or OTHERS[place % len(OTHERS)]
