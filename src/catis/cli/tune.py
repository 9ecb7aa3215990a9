"""`catis tune`: the best a model can be at a budget, without labels and without training, as a recipe folder."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console

from catis.cli import arguments as shared
from catis.cli.progress import progress_bar
from catis.files import check_folder

if TYPE_CHECKING:
    from catis.tuning.result import Tuning

of_goal, of_search = shared.group("What is wanted (one of these)"), shared.group("How it is searched")


def tune_command(
    model: shared.ModelName,
    data: shared.UnlabelledImages,
    budget: Annotated[
        list[float] | None,
        of_goal(
            "--budget", "-b", metavar="SHARE", help="Share of the multiply-adds to keep, such as 0.5; may be repeated."
        ),
    ] = None,
    max_drop: Annotated[
        float | None,
        of_goal(
            metavar="POINTS", help="The cheapest recipe that surely keeps vanilla's class on all but so many per cent."
        ),
    ] = None,
    speedup: Annotated[
        float | None, of_goal(metavar="TIMES", help="So many times as fast as vanilla, on this machine.")
    ] = None,
    minutes: Annotated[float, of_search(metavar="M", min=0.01, help="Time for all budgets together.")] = 15.0,
    without: Annotated[
        list[str] | None,
        of_search(
            metavar="LEVER",
            help="Leave alone: schedule, operator, theta, weights, gain, size or calibration; may be repeated.",
        ),
    ] = None,
    method: Annotated[
        list[str] | None,
        of_search("--method", "-m", help="Method that may be chosen, or several with commas; all by default."),
    ] = None,
    objective: Annotated[
        Literal["fidelity", "diagnostic"],
        of_search(help="Answers like vanilla's, or the paper's procedure for CATIS."),
    ] = "fidelity",
    schedule: Annotated[
        Literal["search", "adaptive"],
        of_search(help="Search, or follow the rule 'spend where rho_s is high' without one."),
    ] = "search",
    controls: Annotated[
        list[str] | None,
        of_search(
            metavar="ROWS",
            help="More rows, which take more time: calibrated (the controls too), diagnostic (the paper's Theta beside "
            "ours); may be repeated.",
        ),
    ] = None,
    ray: Annotated[
        str | None, of_search(metavar="ADDRESS", help="Ray cluster that compares: an address or 'local'.")
    ] = None,
    checkpoint: shared.Checkpoint = None,
    pretrained: shared.Pretrained = None,
    img_size: shared.ImageSize = None,
    model_kwargs: shared.ModelKwargs = None,
    limit: shared.Limit = None,
    seed: shared.Seed = 0,
    batch_size: shared.BatchSize = 32,
    threads: shared.Threads = None,
    output: Annotated[Path, shared.output_option("Folder for the recipes and the page.", metavar="DIR")] = Path(
        "catis-tune"
    ),
) -> None:
    """Find the best that a model can be at a budget, without labels and without training.

    Writes a recipe per budget (`catis.apply(model, recipe="catis-tune")`, or catis-tune/0.5 with several), what was
    measured, and a page with the Pareto curve. A run that was killed goes on where it was when it is called again.

    Example: catis tune deit_tiny_patch16_224 --data photos --budget 0.5 --minutes 15 -o tuned
    """
    _check(budget, max_drop, speedup)
    if output.exists() and not output.is_dir():
        raise ValueError(f"{output} is a file: give a folder for the recipes")
    check_folder(output)
    from catis.report.tune import write_tune_page
    from catis.sweep.local import threads_set
    from catis.tuning.goals import Goal, tune_for

    console = Console(highlight=False, soft_wrap=True)
    spec = shared.model_spec(model, checkpoint, pretrained, model_kwargs, img_size)
    with threads_set(threads):
        net, preprocessing = spec.load()
        goal = Goal(tuple(budget or ()), None if max_drop is None else max_drop / 100, speedup, objective)
        with progress_bar(console) as bar:
            task = bar.add_task("vanilla answers", total=None)

            def report(what: str, best: float) -> None:
                bar.update(task, description=what if best == float("inf") else f"{what}; best so far {best:.4f}")

            how: dict[str, Any] = {"minutes": minutes, "without": without or (), "limit": limit, "seed": seed}
            how |= {"schedule": schedule, "controls": controls or ()}
            how["methods"] = [name.strip() for given in method or () for name in given.split(",") if name.strip()]
            tuning = tune_for(
                goal, net, data, output=output, batch_size=batch_size, preprocessing=preprocessing, ray=ray,
                command=shlex.join(["catis", *sys.argv[1:]]), report=report, **how,
            )  # fmt: skip
    page = write_tune_page(tuning.to_json(), output)
    show(tuning, console)
    console.print(f"wrote {output} (recipe and numbers) and {page}")
    if not tuning.complete:
        raise typer.Exit(shared.INTERRUPTED)


def _check(budget: list[float] | None, max_drop: float | None, speedup: float | None) -> None:
    wishes = (("--budget", budget or None), ("--max-drop", max_drop), ("--speedup", speedup))
    given = [name for name, value in wishes if value is not None]
    if len(given) != 1:
        told = " and ".join(given) if given else "none of them"
        raise ValueError(f"expected one of --budget, --max-drop and --speedup; {told} was given")


def show(tuning: Tuning, console: Console) -> None:
    """Print what one gains, the points with their intervals, and what should be known."""
    from catis.report.tune import answer, points_table

    content = tuning.to_json()
    console.print(answer(content["points"]), markup=False)
    points_table(content["points"], f"{tuning.model}, judged on images that chose nothing").print(console)
    for line in tuning.said:
        console.print(line, markup=False)
