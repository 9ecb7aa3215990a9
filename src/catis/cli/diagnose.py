"""`catis diagnose`: reads a model and a folder, runs the health check, prints the tables, writes JSON and a figure."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from catis.cli.arguments import (
    INTERRUPTED,
    AmountOrNone,
    BatchSize,
    Checkpoint,
    Limit,
    MethodName,
    ModelName,
    Pretrained,
    Seed,
    fetches_weights,
    output_option,
    progress_bar,
)
from catis.core.schedule import Schedule
from catis.files import check_writable
from catis.report.table import Table

if TYPE_CHECKING:
    from catis.diagnostics.report import Diagnosis

__all__ = ["diagnose_command"]

COLUMNS = {
    "layer": "block", "rho_s pairwise": "pairwise", "rho_s pool": "pool", "rho_s s_nf": "s_nf", "rho_s s_cls": "s_cls",
    "rho_s fused": "fused", "delta_F": "delta F", "rho_off vanilla": "rho_off", "rho_off reduced": "reduced",
    "matched": "matched", "chance reduced": "chance", "excess reduced": "excess", "tokens reduced": "tokens",
    "distortion": "distortion",
}  # fmt: skip


def diagnose_command(
    model: ModelName,
    data: Annotated[Path, typer.Option("--data", metavar="DIR", help="Folder of images; labels are not needed.")],
    r: AmountOrNone = None,
    method: MethodName = "catis",
    checkpoint: Checkpoint = None,
    pretrained: Pretrained = None,
    limit: Limit = None,
    corruption: Annotated[str, typer.Option(help="Any of the 15 ImageNet-C corruptions.")] = "gaussian_noise",
    severity: Annotated[int, typer.Option(min=1, max=5, help="Of the corruption.")] = 5,
    seed: Seed = 0,
    batch_size: BatchSize = 16,
    crop_pct: Annotated[
        float | None, typer.Option(min=0.01, max=1.0, help="Share that the centre crop keeps; by default the model's.")
    ] = None,
    measure: Annotated[bool, typer.Option("--measure", help="Also measure r_crit, by bisection.")] = False,
    output: Annotated[Path, output_option("Write OUTPUT.json and OUTPUT.svg.")] = Path("diagnosis"),
) -> None:
    """Say before deployment how far a model can be compressed, and of what it would collapse.

    Without -r, half of the patch tokens are removed over the whole depth.

    Example: catis diagnose deit_small_patch16_224 --data photos -n 200
    """
    report, figure = (output.with_name(output.name + ending) for ending in (".json", ".svg"))
    for file in (report, figure):
        check_writable(file)
    amount = None if r is None else Schedule.from_text(r)

    from catis.health.check import diagnose
    from catis.registry import create_method
    from catis.report.diagnosis import save_figure
    from catis.runs.spec import ModelSpec

    console = Console()
    create_method(method)
    weights = None if checkpoint is None else str(checkpoint)
    spec = ModelSpec(model, weights, fetches_weights(model, checkpoint, pretrained), crop_pct=crop_pct)
    net, preprocessing = spec.load()
    with progress_bar(console) as bar:
        task = bar.add_task("images", total=None)
        found = diagnose(
            net, data, method=method, r=amount, corruption=corruption, severity=severity, seed=seed, measure=measure,
            batch_size=batch_size, limit=limit, preprocessing=preprocessing,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )  # fmt: skip
    show(found, model, console)
    found.save(report)
    save_figure(found, figure)
    console.print(f"wrote {report} and {figure}", highlight=False, soft_wrap=True)
    if not found.complete:
        raise typer.Exit(INTERRUPTED)


def show(found: Diagnosis, model: str, console: Console) -> None:
    """Print the per-layer table, the bands, the fits, and the verdict with its reasons."""
    state = "" if found.complete else ", interrupted"
    title = f"{model}, {found.method} {found.r}, {found.n} images{state}; rho_s under {found.corruption}"
    Table(list(COLUMNS.values()), _body(found), title=title).print(console)
    signals = {name: band for name, band in found.bands().items() if name not in ("frobenius", "pool_share")}
    names = ["shallow", "middle", "deep", "layers"]
    body = [[signal, *(_cell(band[name]) for name in names)] for signal, band in signals.items()]
    Table(["signal", *names], body, title="rho_s by depth").print(console)
    if found.amplifier is not None:
        fit = found.amplifier
        console.print(
            f"distortion: beta {fit.beta:.3f} [{fit.beta_low:.3f}, {fit.beta_high:.3f}], R2 {fit.r_squared:.3f} against"
            f" {fit.linear_r_squared:.3f} of a straight line (p {fit.p_value:.2g}): {fit.growth}",
            highlight=False,
            markup=False,
        )
    if found.agreement is not None:
        console.print(f"agreement with vanilla: {found.agreement.mean:.3f} (n={found.agreement.n})", highlight=False)
    console.print(_critical(found), highlight=False, markup=False)
    for name, reason in found.broken[:10]:
        console.print(f"[yellow]not read:[/yellow] {escape(f'{name}: {reason}')}", highlight=False, soft_wrap=True)
    if found.broken:
        console.print(f"{len(found.broken)} images could not be read and were left out", highlight=False)
    colour = {"healthy": "green", "trigger soon": "yellow"}.get(found.verdict.state, "red")
    console.print(f"[bold {colour}]{found.verdict.state}[/bold {colour}]", highlight=False)
    for reason in found.verdict.reasons:
        console.print(f"  {reason}", highlight=False, markup=False)


def _body(found: Diagnosis) -> list[list[Any]]:
    from catis.diagnostics.report import rows

    return [[int(row["layer"]), *(_cell(row.get(name)) for name in list(COLUMNS)[1:])] for row in rows(found)]


def _critical(found: Diagnosis) -> str:
    if found.agreement is None:
        return "r_crit: not predicted, the model has no classifier"
    word = "none up to half of the tokens" if found.r_crit_predicted is None else str(found.r_crit_predicted)
    line = f"r_crit predicted from this probe: {word}"
    if found.r_crit_measured is not None:
        line += f"; measured: {found.r_crit_measured.r or 'none'} (tried {sorted(found.r_crit_measured.scores)})"
    return line


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None or math.isnan(value):
        return "-"
    whole = isinstance(value, int) or (value == int(value) and abs(value) >= 2)
    return f"{value:.0f}" if whole else f"{value:.3f}" if abs(value) >= 0.01 or value == 0 else f"{value:.1e}"
