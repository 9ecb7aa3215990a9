"""Pages ask for nothing from outside, escape what they are given, and say what their pictures show."""

import re
from html.parser import HTMLParser

from catis.report.chart import Panel, draw_wrapping
from catis.report.marks import Line
from catis.report.page import chart_figure, code, heading, make_page, paragraph, picture_figure, tiles
from catis.report.table import Table

VOID = {"meta", "img", "rect", "line", "polyline", "polygon", "circle", "path"}


class Structure(HTMLParser):
    """Elements with their attributes, and whether all were closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open, self.elements, self.text = [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID or tag in ("polygon", "circle"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def page() -> str:
    line = Line("<m>", [0, 1], [1.0, 2.0], "#888888", "circle")
    parts = [
        paragraph("1 < 2", "lead"),
        heading("A & B"),
        tiles([("<b>", "words")]),
        chart_figure(draw_wrapping([Panel("p", "x", "y", [line])], "t"), "a chart"),
        picture_figure(b"png", 'a "picture"'),
        Table(["a"], [["<i>"]], title="t").html(),
        code("x > y"),
    ]
    return make_page("T & U", parts, "the end")


def test_text_is_text():
    seen = Structure(page())
    assert seen.open == []
    text = "".join(seen.text)
    assert all(words in text for words in ("1 < 2", "A & B", "<b>", "<m>", "<i>", "x > y", "T & U", "the end"))
    assert not {"b", "i", "m"} & {tag for tag, _ in seen.elements}


def test_nothing_is_asked_for_and_pictures_have_words():
    seen = Structure(page())
    links = [value for _, attrs in seen.elements for name, value in attrs.items() if name in ("src", "href")]
    assert all(link.startswith("data:") for link in links)
    assert not re.findall(r"url\(|@import|<script ", page())  # its only script stands in the page itself
    assert not re.findall(r"fetch\(|XMLHttpRequest|import\(", page())
    assert [attrs["alt"] for tag, attrs in seen.elements if tag == "img"] == ['a "picture"']
    assert [tag for tag, _ in seen.elements if tag in ("h1", "h2", "h3")] == ["h1", "h2", "h3"]


def test_dark_and_print():
    assert page().count("@media screen and (prefers-color-scheme: dark)") >= 2  # the page's and the chart's
    assert "@media print" in page()
