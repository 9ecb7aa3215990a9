"""The documentation builds as a site: no broken link, a search index, an API page from docstrings."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mkdocs", reason="the site needs: pip install 'catis[docs]'")

ROOT = Path(__file__).parent.parent


def test_the_site_builds_and_asks_for_nothing_from_outside(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    site = tmp_path / "site"
    assert (site / "search" / "search_index.json").is_file()
    reference = (site / "reference" / "index.html").read_text()
    assert "Run a reduced model and keep what each block decided" in reference  # the docstring of catis.trace
    for page in sorted(site.rglob("*.html")):
        asked = re.findall(r"""<(?:script|img|iframe)[^>]+src=["']?(https?://[^"' >]+)""", page.read_text())
        asked += re.findall(r"""<link rel=["']?stylesheet["']? href=["']?(https?://[^"' >]+)""", page.read_text())
        assert asked == [], page


def test_every_page_is_in_the_navigation():
    listed = set(re.findall(r"[\w-]+\.md", (ROOT / "mkdocs.yml").read_text()))
    assert listed == {page.name for page in (ROOT / "docs").glob("*.md")} | {"readme.md", "contributing.md"}
