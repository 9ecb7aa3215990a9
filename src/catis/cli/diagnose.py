"""`catis diagnose`: reads a model and a folder, runs the health check, prints the tables, writes JSON and a figure."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from catis.cli import arguments as shared
from catis.cli.progress import progress_bar
from catis.files import check_writable
from catis.report.table import Table

if TYPE_CHECKING:
    from catis.diagnostics.report import Diagnosis

COLUMNS = {
    "block": "block", "rho_s pairwise": "pairwise", "rho_s pool": "pool", "rho_s s_nf": "s_nf", "rho_s s_cls": "s_cls",
    "rho_s fused": "fused", "delta_F": "delta F", "rho_off vanilla": "rho_off", "rho_off reduced": "reduced",
    "matched": "matched", "chance reduced": "chance", "excess reduced": "excess", "tokens reduced": "tokens",
    "distortion": "distortion",
}  # fmt: skip


def diagnose_command(
    model: shared.ModelName,
    data: shared.UnlabelledImages,
    r: shared.AmountOrNone = None,
    budget: shared.Budget = None,
    method: shared.MethodName = None,
    option: shared.Options = None,
    recipe: shared.RecipeSource = None,
    checkpoint: shared.Checkpoint = None,
    pretrained: shared.Pretrained = None,
    img_size: shared.ImageSize = None,
    model_kwargs: shared.ModelKwargs = None,
    limit: shared.Limit = None,
    corruption: Annotated[
        str, shared.of_images(metavar="NAME", help="Any of the 15 ImageNet-C corruptions.")
    ] = "gaussian_noise",
    severity: Annotated[int, shared.of_images(min=1, max=5, help="Severity of the corruption.")] = 5,
    seed: shared.Seed = 0,
    batch_size: shared.BatchSize = 16,
    crop_pct: shared.CropShare = None,
    table: Annotated[bool, typer.Option("--table", help="Also print the numbers of every block.")] = False,
    measure: Annotated[bool, typer.Option("--measure", help="Also measure r_crit, by bisection.")] = False,
    output: Annotated[Path, shared.output_option("Write OUTPUT.json and OUTPUT.svg.")] = Path("diagnosis"),
) -> None:
    """Say before deployment how far a model can be compressed, and of what it would collapse.

    Without -r, half of the patch tokens are removed over the whole depth.

    Example: catis diagnose deit_small_patch16_224 --data photos -n 200
    """
    report, figure = (output.with_name(output.name + ending) for ending in (".json", ".svg"))
    for file in (report, figure):
        check_writable(file)
    amount, options = shared.given_amount(r, budget), shared.parse_options(option)

    from catis.api import wanted_recipe
    from catis.core.budget import BUDGET_METHOD
    from catis.health.check import diagnose
    from catis.registry import create_method
    from catis.report.diagnosis import save_figure

    console = Console(highlight=False, soft_wrap=True)
    probed = method or ("catis" if budget is None else BUDGET_METHOD)
    probe: dict[str, Any] = {"method": probed, "r": amount, **options}
    if recipe is not None:
        probe = {"recipe": wanted_recipe(method, r=amount, recipe=recipe, **options)}
    else:
        create_method(probed, **options)  # refused before a model is loaded
    spec = shared.model_spec(model, checkpoint, pretrained, model_kwargs, img_size, crop_pct)
    net, preprocessing = spec.load()
    with progress_bar(console) as bar:
        task = bar.add_task("images", total=None)
        diagnosis = diagnose(
            net, data, corruption=corruption, severity=severity, seed=seed, measure=measure,
            batch_size=batch_size, limit=limit, preprocessing=preprocessing,
            progress=lambda done, total: bar.update(task, completed=done, total=total), **probe,
        )  # fmt: skip
    show(diagnosis, model, console, table)
    diagnosis.save(report)
    save_figure(diagnosis, figure)
    console.print(f"wrote {report} and {figure}")
    if not diagnosis.complete:
        raise typer.Exit(shared.INTERRUPTED)


def show(diagnosis: Diagnosis, model: str, console: Console, table: bool) -> None:
    """Print the verdict in three lines; then, if asked for, the table of all blocks, the bands and the fits."""
    verdict, state = diagnosis.verdict, "" if diagnosis.complete else ", interrupted"
    colour = {"healthy": "green", "trigger soon": "yellow", "too few images to tell": "yellow"}.get(
        verdict.state, "red"
    )
    title = f"{model}, {diagnosis.method} {diagnosis.r}, {diagnosis.n} images{state}"
    console.print(f"[bold {colour}]{verdict.state}[/bold {colour}]: {escape(title)}")
    for line in (verdict.reasons[0], "; ".join([*verdict.reasons[1:], _critical(diagnosis)])):
        console.print(f"  {line}", markup=False)
    if table:
        _show_tables(diagnosis, title, console)
    for name, reason in diagnosis.broken[:10]:
        console.print(f"[yellow]not read:[/yellow] {escape(f'{name}: {reason}')}")
    if diagnosis.broken:
        console.print(f"{len(diagnosis.broken)} images could not be read and were left out")


def _show_tables(diagnosis: Diagnosis, title: str, console: Console) -> None:
    from catis.diagnostics.report import rows

    title = f"{title}; rho_s under {diagnosis.corruption}"
    blocks = [[int(row["block"]), *(_cell(row.get(name)) for name in list(COLUMNS)[1:])] for row in rows(diagnosis)]
    Table(list(COLUMNS.values()), blocks, title=title).print(console)
    signals = {name: band for name, band in diagnosis.bands().items() if name not in ("frobenius", "pool_share")}
    names = ["shallow", "middle", "deep", "all"]
    body = [[signal, *(_cell(band[name]) for name in names)] for signal, band in signals.items()]
    Table(["signal", *names], body, title="rho_s by depth").print(console)
    if diagnosis.amplifier is not None:
        fit = diagnosis.amplifier
        console.print(
            f"distortion: beta {fit.beta:.3f} [{fit.beta_low:.3f}, {fit.beta_high:.3f}], R2 {fit.r_squared:.3f} against"
            f" {fit.linear_r_squared:.3f} of a straight line (p {fit.p_value:.2g}): {fit.growth}",
            markup=False,
        )


def _critical(diagnosis: Diagnosis) -> str:
    if diagnosis.agreement is None:
        return "r_crit: not forecast, the model has no classifier"
    forecast = (
        "none up to half of the tokens" if diagnosis.r_crit_predicted is None else str(diagnosis.r_crit_predicted)
    )
    line = (
        f"r_crit forecast: {forecast if diagnosis.agreement.mean < 1 else 'none, as no image flipped (try --measure)'}"
    )
    measured = diagnosis.r_crit_measured
    return line if measured is None else f"{line}; measured: {measured.r or 'none'} (tried {sorted(measured.scores)})"


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None or math.isnan(value):
        return "-"
    whole = isinstance(value, int) or (value == int(value) and abs(value) >= 2)
    return f"{value:.0f}" if whole else f"{value:.3f}" if abs(value) >= 0.01 or value == 0 else f"{value:.1e}"
