"""`catis gmacs`: what a model costs before and after reduction, from shapes alone."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console

from catis.cli.arguments import Amount, MethodName, Options, parse_amount, parse_options

__all__ = ["gmacs_command"]


def gmacs_command(
    model: Annotated[str, typer.Argument(help="timm model name, or a zoo model such as tiny-12.")],
    r: Amount,
    method: MethodName = "catis",
    option: Options = None,
    img_size: Annotated[int | None, typer.Option(min=1, help="Side of the input; default: the model's own.")] = None,
) -> None:
    """Count multiply-adds, vanilla and reduced. No weights are made, so models of any size are quick."""
    from catis.core.reduction import Reduction
    from catis.macs import compare_macs
    from catis.models import build_model

    amount, options = parse_amount(r), parse_options(option)
    settings: dict[str, Any] = {} if img_size is None else {"img_size": img_size}
    found = compare_macs(build_model(model, device="meta", **settings), Reduction.of(method, amount, **options))
    say = Console(highlight=False, soft_wrap=True).print
    say(f"{model}, {found.patches} patches + {found.prefix} prefix tokens, {method} r={r}")
    say(f"vanilla   {found.vanilla:10.2f} GMACs")
    say(f"reduced   {found.reduced:10.2f} GMACs, {found.reduced / found.vanilla:.1%} of vanilla")
    say(f"matching  {found.overhead:10.2f} GMACs on top, for choosing tokens")
    say(f"patch tokens after each block: {' '.join(map(str, found.tokens))}")
