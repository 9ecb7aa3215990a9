"""The tab of accuracy against multiply-adds: a results store, or what a tuning measured, with the controls."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from catis.app.views import sentence
from catis.report.page import paragraph
from catis.report.store import store_figure, usable_records
from catis.report.tune import TUNE_FILE, points_table, read_tuned, tune_figure
from catis.report.tune import answer as tuned_answer
from catis.runs.store import Store

NOTHING = (
    "Nothing to draw yet. Start the page with --results DIR, a results store that `catis eval --store DIR` or "
    "`catis sweep` wrote or a folder of `catis tune`, or with --recipe DIR of a tuning."
)


def curves_view(folders: Sequence[Path]) -> str:
    """Figures of all folders that hold something to draw.

    Raises:
        ValueError: No such folder, or a results store without a record that can be used.
    """
    for folder in folders:
        if not folder.is_dir():
            raise ValueError(f"{folder} is not a folder: expected a results store, or what `catis tune` wrote")
    parts = [
        _of_tuning(folder) if (folder / TUNE_FILE).is_file() else store_figure(usable_records(Store(folder)))
        for folder in folders
    ]
    return "".join(parts) or sentence(NOTHING)


def _of_tuning(folder: Path) -> str:
    content = read_tuned(folder / TUNE_FILE)
    points = content["points"]
    table = points_table(points, f"{content['model']}: judged on images that chose nothing").html()
    return paragraph(tuned_answer(points)) + "".join(tune_figure(points)) + table
