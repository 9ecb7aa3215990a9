"""`catis report`: one page to send to a colleague, from a results store or from what `catis tune` wrote."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from catis.cli.arguments import output_option
from catis.files import check_writable, write_whole


def report_command(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A results store (eval --store, sweep), or a folder of `catis tune`.")
    ],
    output: Annotated[Path, output_option("HTML file to write.")] = Path("report.html"),
) -> None:
    """Write one self-contained page: the answer, the Pareto figure, tables with intervals, and where they come from.

    Example: catis report runs -o report.html
    """
    if not folder.is_dir():
        raise ValueError(f"{folder} is not a folder: expected a results store, or what `catis tune` wrote")
    check_writable(output, ".html")
    from catis.report.tune import TUNE_FILE, read_tuned, tune_page

    tuned = folder / TUNE_FILE
    write_whole(output, (tune_page(read_tuned(tuned)) if tuned.is_file() else _of_store(folder)).encode())
    Console(highlight=False, soft_wrap=True).print(f"wrote {output}", markup=False)


def _of_store(folder: Path) -> str:
    from catis.report.store import store_page
    from catis.runs.store import Store

    if not any(folder.glob("*.json")):
        raise ValueError(f"{folder}: neither records nor tune.json in it; pass a results store or a folder of tune")
    return store_page(Store(folder), shlex.join(["catis", *sys.argv[1:]]))
