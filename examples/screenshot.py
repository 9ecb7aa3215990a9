"""The picture of docs/app.md: the page of `catis app`, in a browser.

    python examples/screenshot.py docs/img/app.png

Needs catis[app], playwright and a chromium.
"""

import shutil
import sys

from playwright.sync_api import sync_playwright

from catis.app.choices import Named, load_choices
from catis.app.serving import Address, served


def main(path: str) -> None:
    """Serve the page with a zoo model, wait for its first answer, and save what is seen."""
    with served(load_choices([Named("tiny-12")]), Address(port=7869)) as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1200, "height": 800})
        page.set_default_timeout(120_000)
        page.goto(url)
        page.wait_for_selector("#patches svg")
        page.locator("#block input[type=range]").focus()
        for _ in range(3):
            page.keyboard.press("ArrowLeft")
        page.wait_for_function("() => document.querySelector('#patches').innerText.includes('after block 9')")
        page.screenshot(path=path, full_page=True)
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1])
