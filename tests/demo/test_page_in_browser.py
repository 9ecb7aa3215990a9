"""The demo's page in a real browser: its first screen is the gain, and on a phone nothing is cut off."""

import pytest

from catis.demo.page import report_files
from tests.browser import Watched

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def page(measured, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_bytes(report_files(measured, {"torch": "x"})["report.html"])
    return path.as_uri()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_the_first_screen_and_nothing_cut_off(chromium, page, width, scheme):
    user = Watched(chromium, viewport={"width": width, "height": 844}, color_scheme=scheme)
    user.page.goto(page)
    assert user.page.evaluate("() => document.scrollingElement.scrollWidth") <= width
    tiles = [tile.bounding_box() for tile in user.page.locator(".tile").all()]
    assert len(tiles) == 3
    assert all(box["y"] + box["height"] <= 844 for box in tiles)
    assert user.page.locator("figure").first.bounding_box()["y"] < 844
    panels = [panel.bounding_box() for panel in user.page.locator("figure svg[role=img]").all()]
    assert all(box["x"] >= 0 and box["x"] + box["width"] <= width for box in panels)
    if width == 390:  # one column
        assert len({round(box["x"]) for box in tiles}) == 1
        assert all(box["width"] > width / 2 for box in panels)
    user.close()
