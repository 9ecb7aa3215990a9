"""The paper's accuracies, beside which ours are put: its main table, its ablations and its video table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import NamedTuple

from catis.data.corruptions import CORRUPTIONS
from catis.runs.record import Record

DATA = ("imagenet", "imagenet-a", "imagenet-r", "imagenet-sketch", "imagenet-c")
"""Of the main table; the mean over all corruptions for the last."""
CORRUPTED = 5 * len(CORRUPTIONS)
_METHODS = ("vanilla", "tome", "tofu", "pitome", "mctf", "catis")
_ROWS: dict[tuple[str, int], str] = {
    ("vit_small_patch16_224", 13): (
        "73.59 14.35 35.07 14.71 20.27|70.64 12.97 34.33 14.67 18.89|69.19 13.48 31.68 13.97 16.84|"
        "66.60 12.28 30.84 14.13 15.40|70.55 12.44 33.42 13.46 17.78|70.93 13.93 34.27 14.74 18.90"
    ),
    ("vit_base_patch16_224", 13): (
        "76.50 21.21 41.24 16.59 25.03|74.25 19.55 40.95 16.85 23.13|73.74 20.76 39.01 16.41 21.73|"
        "72.22 18.92 38.55 16.60 20.17|74.19 18.97 40.50 16.17 21.84|74.61 20.93 41.04 16.89 23.51"
    ),
    ("vit_large_patch16_224", 11): (
        "83.64 43.27 60.89 45.55 41.91|43.14 6.57 24.86 19.25 15.19|20.47 3.00 10.95 7.44 2.66|"
        "65.49 21.72 39.26 29.92 18.10|43.08 6.00 25.26 20.15 14.54|81.03 43.65 59.76 45.12 33.77"
    ),
    ("deit3_small_patch16_224", 23): (
        "81.13 23.27 46.54 35.42 29.06|42.40 4.07 16.99 14.60 8.26|28.94 3.49 11.11 7.92 4.63|"
        "45.11 8.52 18.22 12.60 6.34|44.22 4.80 16.49 13.72 8.94|58.20 10.04 25.26 20.12 12.38"
    ),
    ("deit3_base_patch16_224", 23): (
        "83.38 36.75 36.80 54.07 41.05|62.16 8.89 30.57 24.93 17.43|47.96 7.65 22.15 17.01 11.57|"
        "59.46 17.53 29.13 20.74 13.92|63.50 9.89 31.41 25.62 17.75|73.85 25.44 43.96 33.44 26.21"
    ),
    ("deit3_large_patch16_224", 11): (
        "84.47 45.13 57.39 44.19 41.55|66.07 9.93 31.33 27.87 19.51|39.85 7.07 12.39 11.63 8.24|"
        "65.08 23.64 35.03 25.96 16.38|68.31 10.69 33.13 28.87 20.30|75.27 26.11 42.64 35.12 29.36"
    ),
    ("vit_7b_patch16_dinov3", 4): (
        "87.53 86.53 92.16 71.50 65.36|86.95 83.76 91.41 70.71 59.80|86.46 83.91 90.37 70.44 54.32|"
        "86.71 83.41 91.24 70.83 56.92|87.00 83.44 91.52 71.05 59.81|87.09 86.15 91.67 71.11 59.94"
    ),
}
"""Per method in the order of _METHODS, per data set in the order of DATA, as the paper prints them."""
_ABLATIONS: dict[tuple[str, int, str, str], str] = {
    ("deit3_large_patch16_224", 10, "fused", "triage"): "77.30 35.24 47.17 36.67",
    ("deit3_large_patch16_224", 10, "cls", "triage"): "78.02 27.73 44.94 35.69",
    ("deit3_large_patch16_224", 10, "nf", "triage"): "70.77 29.36 43.13 31.80",
    ("deit3_large_patch16_224", 10, "fused", "evict"): "27.03 13.04 16.02 11.40",
    ("deit3_large_patch16_224", 10, "fused", "merge"): "29.28 3.89 14.59 11.76",
    ("deit3_large_patch16_224", 10, "fused", "global"): "66.14 15.69 34.65 27.78",
    ("vit_base_patch16_224", 13, "l2", "triage"): "70.53 18.12 38.11 16.12",
    ("vit_base_patch16_224", 13, "euclidean", "triage"): "70.51 18.05 37.94 16.31",
    ("vit_base_patch16_224", 13, "nf", "triage"): "70.54 19.00 38.16 16.33",
}
"""CATIS by model, r, signal and strategy. For ViT-B the paper does not say at which r; 13 is that of its main table."""
_VIDEO = dict(zip(_METHODS, (81.26, 81.23, 80.94, 80.47, 79.83, 81.73), strict=True))
"""VideoMAE ViT-B on UCF-101, 160 tokens in every block from the fourth on."""
_VIDEO_AMOUNTS = [0] * 3 + [160] * 9


class Beside(NamedTuple):
    """A number of ours and the paper's."""

    record: Record  # ours, or one of those that ours is the mean of
    data: str  # on what
    here: float  # top-1, %
    paper: float  # the same of the paper
    n: int  # images behind ours


def beside_paper(records: Sequence[Record]) -> list[Beside]:
    """Every record that the paper has a number for, and the mean over all corruptions where all are there."""
    single = [
        Beside(record, record.data_title, record.top1, theirs, record.n_read)
        for record in records
        if (theirs := paper_top1(record)) is not None
    ]
    return [*single, *_corrupted(records)]


def paper_top1(record: Record) -> float | None:
    """The paper's top-1 of the same model, method, r and data set; None where it has none, or weights are calibrated.

    Example:
        >>> paper_top1.__name__
        'paper_top1'
    """
    if record.corruption is not None or record.calibrated or record.method not in _METHODS:
        return None
    if record.data == "ucf101":
        fits = record.method == "vanilla" or list(record.amounts) == _VIDEO_AMOUNTS
        return _VIDEO[record.method] if fits and "videomae" in record.model.lower() else None
    return _top1(record, DATA.index(record.data)) if record.data in DATA[:4] else None


def _top1(record: Record, place: int) -> float | None:
    """Of the main table, or of an ablation for CATIS at its r, its signal and its strategy."""
    base = record.model.split(".")[0]
    form = (record.options.get("signal", "fused"), record.options.get("strategy", "triage"))
    if record.method == "catis" and (base, record.r, *form) in _ABLATIONS:
        row = _ABLATIONS[base, int(record.r or 0), *form].split()
        return float(row[place]) if place < len(row) else None
    if record.method == "catis" and form != ("fused", "triage"):
        return None
    for (model, r), cells in _ROWS.items():
        if model == base and (record.method == "vanilla" or record.r == r):
            return float(cells.split("|")[_METHODS.index(record.method)].split()[place])
    return None


def _corrupted(records: Sequence[Record]) -> Iterator[Beside]:
    """Means over the 15 corruptions in 5 severities, of the published set or made on the fly."""
    runs: dict[tuple[str, ...], dict[tuple[str, int], Record]] = defaultdict(dict)
    for record in records:
        if record.data in ("imagenet", "imagenet-c") and record.corruption in CORRUPTIONS and not record.calibrated:
            key = (record.model, record.data, record.method, record.schedule, str(record.options))
            runs[key][str(record.corruption), int(record.severity or 0)] = record
    for sets in runs.values():
        record = next(iter(sets.values()))
        theirs = _top1(record, DATA.index("imagenet-c")) if record.method in _METHODS else None
        if len(sets) == CORRUPTED and theirs is not None:
            mean = fmean(run.top1 for run in sets.values())
            n = sum(run.n_read for run in sets.values())
            yield Beside(record, f"imagenet-c, mean of {CORRUPTED}", mean, theirs, n)
