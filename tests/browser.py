"""A browser for tests: Debian's Chromium, watched for errors and for requests that leave this machine."""

import shutil
from typing import Any

SECONDS = 120
"""For anything to appear: the machine may be busy."""
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
MISSING = "NO BROWSER: pages were not tested; install Debian's chromium (apt-get install chromium-headless-shell)"


def find_chromium() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Watched:
    """One user: a context of its own, so with no cookies or storage of another."""

    def __init__(self, browser: Any, **how: Any) -> None:
        self.problems: list[str] = []
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **how})
        self.context.set_default_timeout(1000 * SECONDS)
        self.context.route("**/*", self._let_through)
        self.page = self.context.new_page()
        self.page.on("console", lambda said: said.type == "error" and self.problems.append(f"console: {said.text}"))
        self.page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))

    def _let_through(self, route: Any) -> None:
        if route.request.url.startswith(("http://127.0.0.1:", "file://", "data:", "blob:")):
            route.continue_()
        else:
            self.problems.append(f"asked for {route.request.url}")
            route.abort()

    def close(self) -> None:
        self.context.close()
        assert self.problems == []
