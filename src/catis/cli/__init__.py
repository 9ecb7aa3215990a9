"""The command line: parses, calls a workflow, prints."""

from __future__ import annotations

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

__all__ = ["app", "main"]

USAGE_ERROR = 2


class _CleanErrors(TyperGroup):
    """Turns an error that the user can mend into one red line; --debug shows where it came from."""

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
    cls=_CleanErrors,
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


app.command("gmacs")(gmacs_command)
app.command("methods")(methods_command)
app.command("show")(show_command)


def main() -> None:
    """Entry point of the `catis` command."""
    app()
