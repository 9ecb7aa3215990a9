"""`catis app`: a page in the browser on which to drop an image and move a slider."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Annotated

import typer
from rich.console import Console

from catis.cli.arguments import Pretrained, fetches_weights, of_images, of_model, of_reduction
from catis.errors import require

ZOO = ("tiny-12", "tiny-6", "tiny-24")


def app_command(
    model: Annotated[
        list[str] | None,
        of_model(
            "--model",
            metavar="NAME",
            help="A timm or zoo model, NAME=FILE with its weights, a transformers folder, or an .onnx file of "
            "`catis export`; may be repeated.",
        ),
    ] = None,
    checkpoint: Annotated[
        Path | None, of_model("--checkpoint", metavar="FILE", help="Weights of the one --model that was named.")
    ] = None,
    pretrained: Pretrained = None,
    recipe: Annotated[
        list[Path] | None,
        of_reduction("--recipe", metavar="DIR", help="A recipe, or a folder of `catis tune`; may be repeated."),
    ] = None,
    images: Annotated[
        Path | None,
        of_images(
            "--images", metavar="DIR", help="Examples on the page, and for the diagnosis; drawn ones by default."
        ),
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option("--results", metavar="DIR", help="A results store, or a folder of `catis tune`, to draw."),
    ] = None,
    port: Annotated[int, typer.Option("--port", min=1, max=65535, metavar="P", help="Port to listen on.")] = 7860,
    host: Annotated[
        str, typer.Option("--host", metavar="NAME", help="Address to listen on; 0.0.0.0 lets other machines in.")
    ] = "127.0.0.1",
) -> None:
    """Open a page in the browser: drop an image, move the budget, see which patches go and what it costs.

    Without --model, small trained models that ship with catis. The page asks for nothing from outside and tells
    nobody anything; uploads are gone when the command ends (Ctrl-C).

    Example: catis app --model deit_tiny_patch16_224=deit_tiny.safetensors --images photos
    """
    require("catis app", "app", "gradio")
    from catis.app.choices import Named, load_choices, split_checkpoint
    from catis.app.serving import Address, served
    from catis.app.tabs import curves_view
    from catis.report.tune import TUNE_FILE

    given = [split_checkpoint(text) for text in model or ZOO]
    if checkpoint is not None and len(given) != 1:
        raise ValueError(f"--checkpoint {checkpoint} with {len(given)} models: write --model NAME=FILE for each")
    files = [(name, file or checkpoint) for name, file in given]
    named = [
        Named(name, file, not name.endswith(".onnx") and fetches_weights(name, file, pretrained))
        for name, file in files
    ]
    choices = load_choices(named, recipe or [])
    tuned = [folder for folder in recipe or [] if (folder / TUNE_FILE).is_file()]
    curves = curves_view([*([results] if results else []), *tuned])
    console, address = Console(highlight=False, soft_wrap=True), Address(host, port)
    if not address.local:
        console.print(f"[yellow]note:[/yellow] whoever can reach {host} can use this page")
    with served(choices, address, images, curves) as url:
        console.print(f"open {url} in a browser; Ctrl-C ends it", markup=False)
        with suppress(KeyboardInterrupt):
            Event().wait()
