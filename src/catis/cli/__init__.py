"""The command line: parses, calls a workflow, prints. Nothing heavy is imported before a command really runs."""

from __future__ import annotations

import logging
import os
import shlex
import sys
import warnings
from types import TracebackType
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from typer.core import TyperGroup

from catis import __version__
from catis.cli.app_page import app_command
from catis.cli.bench import bench_command
from catis.cli.demo import demo_command
from catis.cli.diagnose import diagnose_command
from catis.cli.eval import eval_command
from catis.cli.export import export_command
from catis.cli.listing import gmacs_command, methods_command, recipes_command
from catis.cli.results import report_command, results_command
from catis.cli.show import show_command
from catis.cli.sweep import sweep_command
from catis.cli.tune import tune_command
from catis.errors import CatisError, is_out_of_memory

__all__ = ["COMMANDS", "app", "main"]

COMMANDS = (
    app_command, bench_command, demo_command, diagnose_command, eval_command, export_command, gmacs_command,
    methods_command, recipes_command, report_command, results_command, show_command, sweep_command, tune_command,
)  # fmt: skip
USAGE_ERROR = 2
TRACEBACK = "CATIS_TRACEBACK"
"""Environment variable that, if set, shows the traceback of any error."""


class _Commands(TyperGroup):
    """Turns an error that the user can mend into one red line."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except (CatisError, ValueError, OSError, RuntimeError, MemoryError) as error:
            said = _sentence(error)
            if said is None or ctx.params.get("debug") or os.environ.get(TRACEBACK):
                raise
            line = f"[red]error:[/red] {escape(said)}"
            Console(stderr=True).print(line, highlight=False, soft_wrap=True)
            raise typer.Exit(USAGE_ERROR) from error


def _sentence(error: BaseException) -> str | None:
    """What an expected error says; None for an error that nobody foresaw."""
    if is_out_of_memory(error):
        return "out of memory: take a smaller --batch-size, a smaller model, or another device"
    return (str(error) or type(error).__name__) if isinstance(error, (CatisError, ValueError, OSError)) else None


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
    debug: Annotated[
        bool, typer.Option("--debug", help=f"Show tracebacks, as {TRACEBACK}=1 does, and warnings of other libraries.")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Training-free token reduction for Vision Transformers."""


def _paragraphs(text: str | None) -> str:
    """A docstring whose lines end where the paragraphs do, so that help fills a terminal of any width."""
    return "\n\n".join(" ".join(part.split()) for part in (text or "").split("\n\n"))


for _command in COMMANDS:
    app.command(_command.__name__.removesuffix("_command"), help=_paragraphs(_command.__doc__))(_command)


def _debugging() -> bool:
    return bool(os.environ.get(TRACEBACK)) or "--debug" in sys.argv


def report_unexpected(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Say in two lines what was being done and how to report it; the traceback only if it was asked for."""
    if _debugging() or issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    call = shlex.join(sys.argv[1:])
    said = " ".join(str(error).split())[:300]
    print(f"error: `catis {call}` ended in something unexpected: {kind.__name__}: {said}", file=sys.stderr)
    print(
        f"Please report it to the developers of catis with what `{TRACEBACK}=1 catis {call}` prints.", file=sys.stderr
    )


def main() -> None:
    """Entry point of the `catis` command."""
    sys.excepthook = report_unexpected
    if not _debugging():  # what torch, timm or transformers tell developers is no news for who runs a command
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
    app()
