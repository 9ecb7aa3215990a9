"""Serving the page: on loopback unless told otherwise, with nothing from outside and nothing to the outside."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from catis.app.choices import Choices
from catis.app.desk import Desk
from catis.app.photos import MOST_BYTES, find_examples
from catis.app.style import CSS, FONTS, MONO
from catis.app.tabs import curves_view
from catis.errors import require

OFFLINE = {
    "GRADIO_ANALYTICS_ENABLED": "False",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "GRADIO_SSR_MODE": "False",
}


@dataclass(frozen=True)
class Address:
    """Where the page is found."""

    host: str = "127.0.0.1"
    port: int = 7860

    @property
    def local(self) -> bool:
        """Whether only this machine can reach it."""
        return self.host in ("127.0.0.1", "localhost", "::1")


@contextmanager
def served(choices: Choices, address: Address, examples: Path | None = None, curves: str = "") -> Iterator[str]:
    """The page for the length of a with-block, and its address. Uploads lie in a folder that goes away with it."""
    require("catis app", "app", "gradio")
    _check_host(address.host)
    with tempfile.TemporaryDirectory(prefix="catis-app-") as folder:
        # Gradio asks itself whether it runs; that must not go through a proxy that knows nothing of this machine.
        direct = ",".join(filter(None, (os.environ.get("NO_PROXY", ""), "127.0.0.1", "localhost")))
        os.environ.update(OFFLINE, GRADIO_TEMP_DIR=str(Path(folder) / "uploads"), NO_PROXY=direct)
        page = _build(choices, examples, Path(folder), curves)
        try:
            _, url, _ = page.launch(server_name=address.host, server_port=address.port, **_launch_options())
        except OSError as error:
            taken = f"port {address.port} of {address.host} cannot be had: it is taken, or not allowed"
            raise ValueError(f"{taken}; name another with --port") from error
        try:
            yield url
        finally:
            page.close(verbose=False)


def _check_host(host: str) -> None:
    """Refuse a name that nobody knows before a server is started in the background, where nobody would hear of it."""
    try:
        socket.getaddrinfo(host, None)
    except OSError as error:
        raise ValueError(f"--host {host}: no such address ({error}); 127.0.0.1 is this machine alone") from error


def _build(choices: Choices, examples: Path | None, folder: Path, curves: str) -> Any:
    images = find_examples(examples, folder)  # what is wrong is said before Gradio is loaded, which takes seconds
    from catis.app.page import build_page

    return build_page(Desk(choices, images), images, curves or curves_view([]))


def _launch_options() -> dict[str, Any]:
    import gradio as gr

    return {
        "share": False,
        "_frontend": False,  # no check that the server answers itself within 3 s: on a busy machine it takes longer
        "prevent_thread_lock": True,
        "quiet": True,
        "show_error": False,  # what nobody foresaw is told in the terminal, not to whoever looks at the page
        "max_file_size": MOST_BYTES,
        "allowed_paths": [],
        "footer_links": [],
        "run_history": False,
        "enable_monitoring": False,
        "ssr_mode": False,
        "pwa": False,
        "mcp_server": False,
        "state_session_capacity": 100,
        "theme": gr.themes.Base(font=list(FONTS), font_mono=list(MONO)),
        "css": CSS,
    }
