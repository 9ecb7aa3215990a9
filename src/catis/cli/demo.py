"""`catis demo`: runs the demo, prints its tables, writes its folder."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from catis import __version__
from catis.cli.arguments import INTERRUPTED, output_option
from catis.cli.progress import progress_bar
from catis.report.folder import check_folder, write_folder

if TYPE_CHECKING:
    from catis.demo.findings import Findings
    from catis.demo.settings import Settings

KIND = "demo"


def demo_command(
    quick: Annotated[bool, typer.Option("--quick", help="20 seconds on few images: to see that it works.")] = False,
    full: Annotated[bool, typer.Option("--full", help="480 images per view, ten times the work.")] = False,
    seed: Annotated[
        int, typer.Option(min=0, max=2**32 - 1, metavar="N", help="Other seeds are other images of the same kind.")
    ] = 0,
    output: Annotated[
        Path, output_option("Folder to write; an older demo there is replaced.", "--out", metavar="DIR")
    ] = Path("catis-demo"),
) -> None:
    """The whole story offline: trained models collapse under token reduction, and what CATIS can save.

    Five methods (tome, tofu, pitome, mctf, catis) remove r patch tokens in every block of small trained Vision
    Transformers that ship with catis, on images that are made on the spot. It takes about a minute on two cores and
    needs no network. You see accuracy, GMACs and measured speed at equal r; r_crit, the r at which each depth
    collapses, and its law k / L; rho_s and rho_off, the paper's explanation; and a picture of what was kept, merged
    and evicted. The paper's claims stand beside what was measured, also where CATIS does not win.

    Example: catis demo --seed 1 -o my-demo, then open my-demo/report.html
    """
    if quick and full:
        raise ValueError("--quick and --full were given: expected one of them, or neither")
    from catis.demo.settings import DEFAULT, FULL, QUICK

    settings = replace(QUICK if quick else FULL if full else DEFAULT, seed=seed)
    target = check_folder(output, KIND)
    try:
        show_demo(settings, target, Console(highlight=False))
    except KeyboardInterrupt:
        Console(stderr=True, highlight=False).print("stopped; nothing was written")
        raise typer.Exit(INTERRUPTED) from None


def show_demo(settings: Settings, target: Path, console: Console) -> None:
    """Run, print, write; the last line says where the report is."""
    start = time.perf_counter()
    console.print(f"[bold]catis demo[/bold], {settings.title} size. Loading PyTorch ...")
    import torch

    from catis.demo.page import report_files
    from catis.demo.words import introduction

    console.print(introduction(settings), markup=False)
    findings = _run(settings, console)
    _print(findings, console)
    told = {"catis": __version__, "torch": torch.__version__, "seconds": f"{time.perf_counter() - start:.0f}"}
    write_folder(target, report_files(findings, told), KIND)
    console.print(f"{told['seconds']} seconds. Figures, numbers.json and table.csv are beside the report:")
    console.print(f"report: {target / 'report.html'}", soft_wrap=True, markup=False)


def _run(settings: Settings, console: Console) -> Findings:
    from catis.demo.findings import run

    with progress_bar(console) as bar:
        task = bar.add_task("loading models", total=1.0)
        return run(settings, lambda what, share: bar.update(task, description=what, completed=share))


def _print(findings: Findings, console: Console) -> None:
    """What one gains, the two short tables, what became of the paper's claims; the rest is on the page."""
    from catis.demo.claims import judge_claims
    from catis.demo.tables import cost_table, method_table
    from catis.demo.words import CAVEAT, NEXT, gains

    console.print("\nWhat one gains", style="bold")
    for value, words in gains(findings):
        console.print(f"[bold]{value}[/bold]: {words}")
    console.print(f"{CAVEAT}\n", style="dim")
    for table in (cost_table(findings), method_table(findings)):
        table.print(console)
        console.print()
    console.print("Does it come out as in the paper?", style="bold")
    for claim in judge_claims(findings):
        console.print(f"- {claim.claim}: {claim.verdict}", markup=False)
    console.print("\nNow your model", style="bold")
    console.print(f"{NEXT}\n", markup=False, soft_wrap=True)
