"""The page of a tuning: what one gains, the Pareto curve with the controls, and how it was found."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from catis.diagnostics.estimates import Estimate
from catis.files import write_whole
from catis.report.chart import Panel, draw_wrapping
from catis.report.colours import style_of
from catis.report.diagnosis import schedule_panels
from catis.report.marks import Line
from catis.report.page import chart_figure, code, heading, make_page, paragraph
from catis.report.table import Table

TUNE_FILE, PAGE_NAME = "tune.json", "tune.html"
CAPTION = (
    "Share of held-out images with the vanilla model's class, against multiply-adds. Bars: 95 %. Every point leaves "
    "out the patch tokens of the last block where the head does not read them."
)

SCHEDULES = ("tuned", "adaptive", "same share", "constant r")
SCHEDULE_CAPTION = (
    "Patch tokens that leave each block, how fast they go, and rho_s: how well the ranking of pairs (pairwise) and of "
    "single tokens (fused) survives noise. The paper's rule, adaptive, spends where pairwise rho_s is high. Patches "
    "that a smaller input never has count as removed in the first block."
)


def read_tuned(file: Path) -> dict[str, Any]:
    """What a file that `catis tune` wrote says."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{file}: not valid JSON: {error}") from error
    needed = {"model", "command", "n", "points", "tried", "versions", "minutes", "said", "complete"}
    missing = needed - set(content) if isinstance(content, dict) else needed
    if missing:
        raise ValueError(f"{file}: no {', '.join(sorted(missing))} in it; expected a file that `catis tune` wrote")
    return dict(content)


def write_tune_page(content: Mapping[str, Any], folder: Path) -> Path:
    """Write the page of what `tune.json` says into the same folder."""
    page = folder / PAGE_NAME
    write_whole(page, tune_page(content).encode())
    return page


def tune_page(content: Mapping[str, Any]) -> str:
    """The page as HTML, of what `tune.json` says."""
    parts = [
        paragraph(answer(content["points"]), "lead"),
        *tune_figure(content["points"]),
        points_table(content["points"], "Judged on images that chose nothing").html(),
        *(paragraph(sentence, "mark") for sentence in content["said"]),
        *schedule_figures(content),
        heading("Put it on"),
        code('import catis\ncatis.apply(model, recipe="THIS FOLDER")   # or THIS FOLDER/0.5 with several budgets'),
        heading("How it was found"),
        paragraph(_how(content)),
        code(content["command"]),
    ]
    versions = "; ".join(f"{name} {version}" for name, version in content["versions"].items())
    return make_page(f"{content['model']} at a budget", parts, versions)


def answer(points: Sequence[Mapping[str, Any]]) -> str:
    """What one gains, in a sentence per budget.

    Example:
        >>> tuned = {"kind": "tuned", "budget": 0.5, "macs_share": 0.498, "agreement": 0.93, "n": 75, "kl": 0.1}
        >>> answer([tuned])
        'With 50 % of the multiply-adds the model gives the same class as vanilla on 93.0 % of 75 images.'
    """
    said = []
    for point in (point for point in points if point["kind"] == "tuned"):
        same = f"a distance of {point['kl']:.4f} from vanilla"
        if point["agreement"] is not None:
            same = f"the same class as vanilla on {100 * point['agreement']:.1f} % of {point['n']} images"
        rival = _rival(points, point["budget"])
        said.append(f"With {100 * point['macs_share']:.0f} % of the multiply-adds the model gives {same}{rival}.")
    return " ".join(said)


def _rival(points: Sequence[Mapping[str, Any]], budget: float) -> str:
    for point in points:
        if point["kind"] == "smaller image" and point["budget"] == budget and point["agreement"] is not None:
            return f"; feeding it a smaller image keeps {100 * point['agreement']:.1f} %"
    return ""


def points_table(points: Sequence[Mapping[str, Any]], title: str = "") -> Table:
    """All points, dearest budget first, the tuned one first at each."""
    ordered = sorted(points, key=lambda point: (-point["budget"], point["kind"] != "tuned"))
    rows = [
        [
            point["kind"], f"{point['budget']:g}", f"{100 * point['macs_share']:.1f}", point["method"],
            "yes" if point["calibrated"] else "", f"{point['kl']:.4f}", _agreement(point), str(point["n"]),
        ]
        for point in ordered
    ]  # fmt: skip
    return Table(
        ["what", "budget", "MACs %", "method", "calibrated", "KL", "same class % (95 %)", "n"], rows, title=title
    )


def _agreement(point: Mapping[str, Any]) -> str:
    if point["agreement"] is None:
        return "-"
    low, high = 100 * point["agreement_low"], 100 * point["agreement_high"]
    return f"{100 * point['agreement']:.1f} ({low:.1f}-{high:.1f})"


def tune_figure(points: Sequence[Mapping[str, Any]]) -> list[str]:
    """The Pareto curve; none for a model without classes."""
    if any(point["agreement"] is None for point in points):
        return []
    kinds = ["tuned", *sorted({point["kind"] for point in points} - {"tuned", "vanilla"})]
    panel = Panel("Agreement with vanilla", "multiply-adds, % of vanilla", "same class, %", _lines(points, kinds))
    return [chart_figure(draw_wrapping([panel], "Pareto curve"), CAPTION)]


def schedule_figures(content: Mapping[str, Any]) -> list[str]:
    """Tokens kept per block at every budget beside rho_s, so that one sees whether tokens go where rankings survive."""
    rho_s = {name: [Estimate(**block) for block in blocks] for name, blocks in content.get("rho_s", {}).items()}
    figures = []
    for budget, counts in content.get("kept", {}).items():
        shown = {name: counts[name] for name in SCHEDULES if name in counts}
        panels = schedule_panels(shown, counts["vanilla"][0], rho_s)
        figures.append(chart_figure(draw_wrapping(panels, f"Schedules at {budget}"), SCHEDULE_CAPTION))
    return [heading("Where the tokens go"), *figures] if figures else []


def _lines(points: Sequence[Mapping[str, Any]], kinds: Sequence[str]) -> list[Line]:
    lines = []
    for place, kind in enumerate(kinds):
        own = [point for point in points if point["kind"] in (kind, "vanilla")]
        own = sorted(own, key=lambda point: point["macs_share"])
        style = style_of("catis" if kind == "tuned" else kind, place)
        x, y, low, high = (
            [100 * point[name] for point in own]
            for name in ("macs_share", "agreement", "agreement_low", "agreement_high")
        )
        lines.append(Line(kind, x, y, style.colour, style.marker, low=low, high=high))
    return lines


def _how(content: Mapping[str, Any]) -> str:
    fit, choose, judge = (content["n"][name] for name in ("fit", "choose", "judge"))
    ended = "" if content["complete"] else " It was interrupted; this is the best so far."
    looks = f"{len(content['tried'])} looks at candidates in {content['minutes']:.1f} minutes, without labels"
    return (
        f"{looks}: {fit} images were searched and calibrated on, {choose} accepted or rejected what was found, and "
        f"{judge} were looked at once, at the end.{ended}"
    )
