"""The page of a results store: what reduction costs and saves first, then every number with the record behind it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from catis.evaluate.metrics import Pair, paired_differences
from catis.report.chart import Panel, draw_wrapping
from catis.report.colours import style_of
from catis.report.marks import Line
from catis.report.page import chart_figure, code, heading, make_page, paragraph
from catis.report.paper import beside_paper
from catis.report.table import Table
from catis.runs.record import Record
from catis.runs.store import Damaged, Store

CAPTION = (
    "Top-1 against multiply-adds, one panel per model and data set; bars and bands: 95 % (Wilson). A point says its "
    "record on hover. The smaller image is the same vanilla model on fewer pixels: what reduction has to beat."
)
SMALLER = "smaller image"


def store_page(store: Store, command: str) -> str:
    """The page as HTML; damaged records are named on it."""
    records, damaged = scanned(store)
    parts = [
        paragraph("What does token reduction cost in accuracy, and what does it save?", "note"),
        paragraph(_answer(records), "lead"),
        store_figure(records),
        _main_table(records).html(),
        *_paired(store, records),
        *_beside_paper(records),
        heading("Where the numbers come from"),
        _environment(records).html(),
        *(paragraph(f"Left out, damaged: {entry.reason}", "mark") for entry in damaged),
        code(command),
    ]
    return make_page(f"Results of {store.folder.name}", parts, f"{len(records)} records in {store.folder}.")


def scanned(store: Store) -> tuple[list[Record], list[Damaged]]:
    """The records of a store, and the damaged ones; no record at all is an error."""
    entries = list(store.scan())
    records = [entry for entry in entries if isinstance(entry, Record)]
    if not records:
        raise ValueError(f"{store.folder}: no records in it; write some with `catis eval ... --store {store.folder}`")
    return records, [entry for entry in entries if isinstance(entry, Damaged)]


def store_figure(records: Sequence[Record]) -> str:
    """Top-1 against multiply-adds, as HTML."""
    return chart_figure(draw_wrapping(_panels(records), "top-1 against multiply-adds"), CAPTION)


def series_of(record: Record, largest: int) -> str:
    """Name of the curve a record belongs to: its method, or the smaller-image control."""
    shrunk = record.method == "vanilla" and record.preprocessing["size"][-1] < largest
    return SMALLER if shrunk else record.method_title


def _groups(records: Sequence[Record]) -> Mapping[tuple[str, str], list[Record]]:
    """Records by model and data set, in the order of their names."""
    groups: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in records:
        groups[record.model, record.data_title].append(record)
    return dict(sorted(groups.items()))


def _largest(records: Sequence[Record]) -> int:
    return max(int(record.preprocessing["size"][-1]) for record in records)


def _panels(records: Sequence[Record]) -> list[Panel]:
    panels = []
    for (model, data), own in _groups(records).items():
        curves: dict[str, list[Record]] = defaultdict(list)
        for record in sorted(own, key=lambda record: record.gmacs):
            curves[series_of(record, _largest(own))].append(record)
        lines = [_line(name, points, place) for place, (name, points) in enumerate(sorted(curves.items()))]
        panels.append(Panel(f"{model}, {data}, n={own[0].n_read}", "GMACs", "top-1, %", lines))
    return panels


def _line(name: str, points: Sequence[Record], place: int) -> Line:
    colour, marker = style_of(name.removesuffix(" calibrated"), place)
    said = [f"{name} {p.schedule}: {p.top1:.2f} % at {p.gmacs:.3g} GMACs, n={p.n_read}, {p.name}" for p in points]
    x, y, low, high = ([getattr(p, key) for p in points] for key in ("gmacs", "top1", "top1_low", "top1_high"))
    dash = "dashed" if name == SMALLER or name.endswith(" calibrated") else "solid"
    return Line(name, x, y, colour, marker, dash, len(points) > 1, low, high, said)


def _answer(records: Sequence[Record]) -> str:
    """The largest saving that costs at most one point, over all pairs of a reduced and a vanilla run."""
    best: tuple[float, Record, Record] | None = None
    for own in _groups(records).values():
        vanilla = [run for run in own if series_of(run, _largest(own)) == "vanilla"]
        reduced = [run for run in own if run.method != "vanilla"]
        close = [run for run in reduced if vanilla and run.top1 >= vanilla[0].top1 - 1]
        for run in close:
            saved = 1 - run.gmacs / run.gmacs_vanilla
            if best is None or saved > best[0]:
                best = saved, run, vanilla[0]
    if best is None:
        return "No reduced run stays within one point of the vanilla model on the same images."
    saved, run, vanilla_run = best
    return (
        f"{run.model} on {run.data_title} needs {100 * saved:.0f} % fewer multiply-adds with {run.method_title} "
        f"{run.schedule} and is right on {run.top1:.1f} % of {run.n_read} images instead of {vanilla_run.top1:.1f} %: "
        f"the largest saving here that costs at most one point."
    )


def _main_table(records: Sequence[Record]) -> Table:
    rows = [
        [
            record.model, record.data_title, series_of(record, _largest(own)), record.schedule,
            f"{record.top1:.2f} ({record.top1_low:.1f}-{record.top1_high:.1f})", f"{record.top5:.1f}", record.n_read,
            record.n_broken or "", f"{record.gmacs:.4g}", record.tokens[-1],
            "" if record.agreement is None else f"{record.agreement:.1f}", record.name,
        ]
        for own in _groups(records).values()
        for record in sorted(own, key=lambda record: (record.method_title, -record.gmacs))
    ]  # fmt: skip
    columns = ["model", "data", "method", "r", "top-1 % (95 %)", "top-5 %", "n", "broken", "GMACs", "tokens", "agree %"]
    note = "agree: same class as the vanilla run. record: NAME.json in the store, with everything that was run."
    return Table([*columns, "record"], rows, title="Every run", note=note, grouped=2)


def _paired(store: Store, records: Sequence[Record]) -> list[str]:
    methods = {record.method_title for record in records}
    tables = [
        _pair_table(paired_differences(store, records, against), against)
        for against in ("vanilla", "tome")
        if against in methods and len(methods) > 1
    ]
    return [table.html() for table in tables if table.rows]


def _pair_table(pairs: Sequence[Pair], against: str) -> Table:
    rows: list[list[Any]] = []
    for pair in pairs:
        if pair.difference is not None:
            record, difference = pair.record, pair.difference
            points = f"{difference.points:+.2f} ({difference.low:+.2f} to {difference.high:+.2f})"
            counts = [difference.gained, difference.lost, difference.n, f"{difference.p_value:.2g}"]
            rows.append([record.model, record.data_title, record.method_title, record.schedule, points, *counts])
    absent = Counter(pair.problem for pair in pairs if pair.difference is None)
    note = "Image by image, bootstrap interval, McNemar's p; not corrected for many comparisons."
    note += "".join(f" {count} not compared: {problem}." for problem, count in absent.items())
    columns = ["model", "data", "method", "r", "points (95 %)", "gained", "lost", "n", "p"]
    rows.sort(key=lambda row: row[:3])
    return Table(columns, rows, f"Against {against}, on the same images", note, 2)


def _beside_paper(records: Sequence[Record]) -> list[str]:
    rows = [
        [row.record.model, row.data, _form(row.record), row.record.schedule, f"{row.here:.2f}", row.paper, row.n]
        for row in beside_paper(records)
    ]
    if not rows:
        return []
    note = "The paper's images and weights may not be those used here: a claim beside a measurement, not a test of it."
    return [Table(["model", "data", "method", "r", "here", "paper", "n"], rows, "Beside the paper", note, 2).html()]


def _form(record: Record) -> str:
    """The method, with the signal and the strategy of CATIS where they are not the usual ones."""
    usual = {"signal": "fused", "strategy": "triage"}
    said = [str(record.options[name]) for name, own in usual.items() if record.options.get(name, own) != own]
    return " ".join([record.method, *said])


def _environment(records: Sequence[Record]) -> Table:
    """What the runs have in common, and how many differ."""
    told: dict[str, Counter[str]] = defaultdict(Counter)
    for record in records:
        for name, version in record.versions.items():
            told[name][version] += 1
        for name in ("device", "host", "threads", "batch_size"):
            if name in record.environment:
                told[name][str(record.environment[name])] += 1
        told["precision"][record.precision] += 1
        told["weights"][f"{record.model} {record.weights[:12]}"] += 1
        size = "x".join(str(side) for side in record.preprocessing["size"])
        told["images"][f"{size}, crop_pct {record.preprocessing['crop_pct']}"] += 1
    rows = [[name, value, count] for name, values in told.items() for value, count in values.items()]
    return Table(["what", "value", "records"], rows)
