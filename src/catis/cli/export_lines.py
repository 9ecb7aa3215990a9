"""What `catis export` prints of a file: its checks, and for int8 how often it agrees with vanilla."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from catis.export import Agreement, ExportReport

FEW = 100
"""Images below which an agreement is within some points of anything."""


def show_agreement(agreement: Agreement, console: Console) -> None:
    """Agreement with vanilla in float, on held-out images."""
    console.print(f"same class as vanilla in float, of {agreement.n} held-out images:", highlight=False)
    rows = (
        ("reduced float", agreement.reduced),
        ("vanilla int8", agreement.vanilla_int8),
        ("reduced int8", agreement.reduced_int8),
    )
    for name, share in rows:
        console.print(f"  {name:14s} {share:6.1%}", highlight=False)
    if agreement.n < FEW:
        console.print(
            f"[yellow]note:[/yellow] {agreement.n} images tell little; some hundreds are better", highlight=False
        )


def show_file(report: ExportReport, console: Console) -> None:
    """The checks that a file has passed, its input and its output."""
    for comparison in report.comparisons:
        line = f"  {comparison.runtime}, batch {comparison.batch}: differs from PyTorch by {comparison.difference:.1e}"
        console.print(line, highlight=False)
    shape = ", ".join(map(str, ("batch" if report.dynamic_batch else report.input_shape[0], *report.input_shape[1:])))
    console.print(f"done: {report.path}, pixel_values ({shape}) -> {report.output}", highlight=False, soft_wrap=True)
