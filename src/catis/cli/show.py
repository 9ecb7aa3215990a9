"""`catis show`: a picture of what happens to the patches of an image."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from catis.cli.arguments import (
    Amount,
    Checkpoint,
    MethodName,
    Options,
    Pretrained,
    parse_amount,
    parse_options,
)

if TYPE_CHECKING:
    from catis.trace import Trace

__all__ = ["show_command"]


def show_command(
    images: Annotated[list[Path], typer.Argument(metavar="IMAGE...", help="Image files.")],
    model: Annotated[str, typer.Option("--model", help="timm model name, or a zoo model such as tiny-12.")],
    r: Amount = "11",
    method: MethodName = "catis",
    option: Options = None,
    checkpoint: Checkpoint = None,
    pretrained: Pretrained = False,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="PNG file to write.")] = Path("catis.png"),
) -> None:
    """Draw which patches merge and which are evicted, after blocks 3, 6, 9 and 12, with the signals' heat maps."""
    from catis.api import apply
    from catis.models import is_zoo_model, load_model
    from catis.picture import check_target, draw_traces, save_png, trace_files

    say = Console(highlight=False, soft_wrap=True).print
    amount, options = parse_amount(r), parse_options(option)
    check_target(out)
    net = apply(load_model(model, checkpoint, pretrained), method, r=amount, **options)
    if checkpoint is None and not pretrained and not is_zoo_model(model):
        say(f"[yellow]note:[/yellow] {model} has random weights; add --checkpoint FILE or --pretrained")
    seen = trace_files(net, images)
    Console(highlight=False).print(_table(seen, f"{model}, {method} r={r}, {len(images)} image(s)"))
    save_png(draw_traces(seen), out)
    say(f"wrote {out}", markup=False)


def _table(seen: Trace, title: str) -> Table:
    header, *rows = seen.rows()
    table = Table(title=title, title_justify="left")
    for name in header:
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*row)
    return table
