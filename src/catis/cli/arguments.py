"""Arguments that several commands take, and how their text becomes values."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = ["Amount", "Checkpoint", "MethodName", "Options", "Pretrained", "parse_amount", "parse_options"]

Amount = Annotated[
    str,
    typer.Option(
        "-r",
        metavar="R",
        help="Patch tokens to remove per block: 13, a share 0.1, one number per block 16,12,8, or r:inflect 8:-1.",
    ),
]
MethodName = Annotated[str, typer.Option("--method", "-m", help="A name that `catis methods` lists.")]
Options = Annotated[
    list[str] | None,
    typer.Option("--option", "-o", metavar="NAME=VALUE", help="Option of the method; may be repeated."),
]
Checkpoint = Annotated[
    Path | None, typer.Option("--checkpoint", metavar="FILE", help="Weights of the model, .safetensors.")
]
Pretrained = Annotated[bool, typer.Option("--pretrained", help="Let timm fetch its own weights from the hub.")]


def parse_amount(text: str) -> int | float | list[int] | tuple[int, float]:
    """The r of `catis.apply`, from the command line's spelling.

    Example:
        >>> parse_amount("13"), parse_amount("0.1"), parse_amount("16,8"), parse_amount("8:-1")
        (13, 0.1, [16, 8], (8, -1.0))
    """
    try:
        if ":" in text:
            mean, inflect = text.split(":")
            return int(mean), float(inflect)
        if "," in text:
            return [int(part) for part in text.split(",")]
        return float(text) if "." in text else int(text)
    except ValueError as error:
        raise ValueError(
            f"-r {text}: expected a number (13), a share (0.1), one number per block (16,12,8) or r:inflect (8:-1)"
        ) from error


def parse_options(texts: list[str] | None) -> dict[str, Any]:
    """NAME=VALUE pairs; a value that is no Python literal is a string.

    Example:
        >>> parse_options(["tau=0.8", "strategy=evict"])
        {'tau': 0.8, 'strategy': 'evict'}
    """
    options: dict[str, Any] = {}
    for text in texts or []:
        name, found, value = text.partition("=")
        if not (found and name.isidentifier()):
            raise ValueError(f"--option {text}: expected NAME=VALUE, such as tau=0.8")
        if name in options:
            raise ValueError(f"--option {name} was given twice")
        options[name] = _literal(value)
    return options


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
