"""Numbers in the prose of a page, and the claims that say where they come from."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

NUMBER = r"(?<![\w.@/])(?<![A-Za-z]-)[+-]?\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?(?![\w.]*\w)"
UNIT = r"(?:%|points?|ms|times|s|seconds?|minutes?|hours?|microseconds?|MB|GB|GMACs|images per second)(?!\w)"
RANGE = rf" ?(?:(?:to|and|or|-|against|/) ?{NUMBER} ?)*{UNIT}"
COMMENT = r"(?<=\S)  +# (.*)$"

Values = Callable[[], Sequence[float | str]]


@dataclass(frozen=True)
class Claim:
    """A piece of a page with `{}` in place of each number, and where these come from.

    Attributes:
        source: A function that gives the numbers, or in words: a test, a script of benchmarks/, the paper.
    """

    page: str
    words: str
    source: Values | str

    def pattern(self) -> str:
        return re.escape(" ".join(self.words.split())).replace(r"\{\}", f"({NUMBER})").replace(r"\ ", " ")

    def found(self, text: str) -> list[re.Match[str]]:
        return list(re.finditer(self.pattern(), text))


def prose(page: str) -> str:
    """What a page says outside tables, outputs and code, and in the comments of its code, on one line."""
    blocks = re.findall(r"^```.*?^```$", page, re.DOTALL | re.MULTILINE)
    text = re.sub(r"^```.*?^```$", "", page, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^\|.*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"`[^`]*`", "`...`", text)
    text = re.sub(r"\]\([^)]*\)", "]", text).replace("*", "").replace("+-", "± ")
    comments = [words for block in blocks for words in re.findall(COMMENT, block, re.MULTILINE)]
    return " ".join(" ".join([text, *comments]).split())


def measurements(text: str) -> list[re.Match[str]]:
    """Numbers that have a unit, a decimal point or an exponent.

    Example:
        >>> [one[0] for one in measurements("4 to 8 % of 12 blocks, rho 0.31, r=13, torch 2.15.0, 1e-9")]
        ['4', '8', '0.31', '1e-9']
    """
    return [
        one for one in re.finditer(NUMBER, text) if "." in one[0] or "e" in one[0] or re.match(RANGE, text[one.end() :])
    ]
