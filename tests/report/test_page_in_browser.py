"""A report in a real browser: it opens in a second with 5,000 records, its tables sort, it asks for nothing."""

import re

import pytest

from catis.report.store import store_page
from catis.runs.store import Store
from tests.browser import Watched
from tests.runs.records import record

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("many")
    store = Store(folder / "runs")
    for at in range(5000):
        content = record(
            f"r{at:04}", model=f"m{at % 10}", data=f"d{at // 10 % 10}", gmacs=0.01 + at / 1e5, top1=at / 50
        )
        store.path(content.name).write_text(content.to_json())
    (folder / "report.html").write_text(store_page(store, "catis report runs"))
    return (folder / "report.html").as_uri()


def test_it_opens_within_a_second(chromium, report):
    """Processor time of the page's own thread, which is the time it takes where nothing else runs."""
    user = Watched(chromium)
    session = user.context.new_cdp_session(user.page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    user.page.goto(report)
    user.page.wait_for_selector("button.copy")
    metrics = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
    assert user.page.locator("tbody tr").count() > 5000
    assert 0 < metrics["TaskDuration"] < 1.0
    user.close()


def test_tables_sort_by_click_and_by_key(chromium, report):
    user = Watched(chromium, viewport={"width": 390, "height": 844}, color_scheme="dark")
    user.page.goto(report)
    head = user.page.locator("th", has_text="top-1 % (95 %)").first
    rows = "Array.from(document.querySelector('table').tBodies[0].rows)"
    cells = f"() => {rows}.map(row => parseFloat(row.cells[4].innerText))"
    head.click()
    assert head.get_attribute("aria-sort") == "ascending"
    rising = user.page.evaluate(cells)
    assert rising == sorted(rising)
    head.focus()
    user.page.keyboard.press("Enter")
    assert user.page.evaluate(cells) == rising[::-1]
    assert user.page.evaluate("() => document.scrollingElement.scrollWidth") <= 390  # wide tables scroll in themselves
    user.close()


def test_a_table_is_copied_whole(chromium, report):
    """To the clipboard, or where the browser allows none, selected for the user to copy."""
    user = Watched(chromium)
    user.context.grant_permissions(["clipboard-read", "clipboard-write"])
    user.page.goto(report)
    button = user.page.locator("button.copy").first
    table = user.page.locator("table").first
    button.click()
    user.page.wait_for_function("b => b.textContent !== 'copy table'", arg=button.element_handle())
    selected = "getSelection().toString()"
    read = "navigator.clipboard.readText()" if button.inner_text() == "copied" else f"Promise.resolve({selected})"
    lines = user.page.evaluate(f"() => {read}").strip().splitlines()
    cells = [[cell.strip() for cell in line.split("\t")] for line in (lines[0], lines[-1])]
    shown = [row.locator("th, td").all_inner_texts() for row in (table.locator("tr").first, table.locator("tr").last)]
    assert cells == [[cell.strip() for cell in row] for row in shown]
    assert len(lines) == table.locator("tr").count()
    user.close()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")])
def test_it_can_be_read_wide_and_narrow_in_light_and_dark(chromium, report, width, scheme):
    user = Watched(chromium, viewport={"width": width, "height": 844}, color_scheme=scheme)
    user.page.goto(report)
    assert user.page.evaluate("() => document.scrollingElement.scrollWidth") <= width
    ink = "getComputedStyle(e)[e.ownerSVGElement ? 'fill' : 'color']"
    inks = f"s => Array.from(document.querySelectorAll(s)).map(e => {ink})"
    paper = brightness(user.page.evaluate("() => getComputedStyle(document.body).backgroundColor"))
    assert (paper > 128) == (scheme == "light")
    for what in ("h1", "td", "svg text"):
        assert all(abs(brightness(ink) - paper) > 80 for ink in set(user.page.evaluate(inks, what))), what
    user.close()


def brightness(colour: str) -> float:
    return sum(map(float, re.findall(r"[\d.]+", colour)[:3])) / 3
