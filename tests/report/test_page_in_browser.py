"""A report in a real browser: it opens in a second with 5,000 records, its tables sort, it asks for nothing."""

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
