"""The command line: parses, calls a workflow, prints."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from typer.core import TyperGroup

from catis import __version__
from catis.cli.gmacs import gmacs_command
from catis.cli.methods import methods_command
from catis.cli.show import show_command
from catis.errors import CatisError

__all__ = ["HEAVY", "app", "main"]

USAGE_ERROR = 2
HEAVY = {
    "bench": "Time methods against vanilla, and say why when the saving does not become time.",
    "demo": "The whole story offline: trained models collapse under token reduction, and what CATIS can save.",
    "diagnose": "Say before deployment how far a model can be compressed, and of what it would collapse.",
    "eval": "Measure accuracy on labelled images, of the vanilla model and of the reduced one.",
    "export": "Export a reduced model; nothing is written unless it computes what PyTorch computes.",
    "results": "Show what a results store holds, and compare methods image by image.",
    "sweep": "Run models x methods x r x data sets from a plan file, into one store; what is done is skipped.",
}
"""Commands whose files import torch, with their help: they are imported when they are called, not for `--help`."""


class _Commands(TyperGroup):
    """Imports heavy commands late, and turns an error that the user can mend into one red line."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] in HEAVY:
            self.add_command(_import_command(args[0]), args[0])
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except (CatisError, ValueError, OSError) as error:
            if ctx.params.get("debug"):
                raise
            line = f"[red]error:[/red] {escape(str(error) or type(error).__name__)}"
            Console(stderr=True).print(line, highlight=False, soft_wrap=True)
            raise typer.Exit(USAGE_ERROR) from error


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"catis {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Training-free token reduction for Vision Transformers."""


def _import_command(name: str) -> Any:
    alone = typer.Typer(add_completion=False)
    alone.command(name)(getattr(import_module(f"catis.cli.{name}"), f"{name}_command"))
    return typer.main.get_command(alone)


def _place(name: str, help_line: str) -> None:
    """Put a heavy command into the list that `--help` prints."""

    @app.command(name, help=help_line)
    def _not_imported_yet() -> None:
        raise AssertionError(name)


app.command("gmacs")(gmacs_command)
app.command("methods")(methods_command)
app.command("show")(show_command)
for _name, _help in HEAVY.items():
    _place(_name, _help)


def main() -> None:
    """Entry point of the `catis` command."""
    app()
