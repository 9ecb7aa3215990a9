"""What the site needs beyond the pages of docs/: README and CONTRIBUTING as pages, and links that fit both places."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
PAGES = {"README.md": "readme.md", "CONTRIBUTING.md": "contributing.md"}
LINK = re.compile(r"\[([^\]]*)\]\(([^)#\s]+)(#[^)]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that lie above docs/."""
    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links as the site has them; a file of the repository that is no page is named by its path."""
    folder = ROOT if page.file.src_uri in PAGES.values() else ROOT / "docs"
    return LINK.sub(lambda found: _link(found, folder), markdown)


def _link(found: re.Match[str], folder: Path) -> str:
    text, target, anchor = found[1], found[2], found[3] or ""
    if "://" in target:
        return found[0]
    path = (folder / target).resolve()
    if path.is_relative_to(ROOT / "docs"):
        return f"[{text}]({path.relative_to(ROOT / 'docs').as_posix()}{anchor})"
    inside = path.relative_to(ROOT).as_posix()
    return f"[{text}]({PAGES[inside]}{anchor})" if inside in PAGES else f"{text} (`{inside}`)"
