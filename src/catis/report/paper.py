"""The paper's main table, beside which ours is put: top-1 (mean over corruptions for -C) by model, r and method."""

from __future__ import annotations

from catis.runs.record import Record

__all__ = ["paper_top1"]

DATA = ("imagenet", "imagenet-a", "imagenet-r", "imagenet-sketch")
_METHODS = ("vanilla", "tome", "tofu", "pitome", "mctf", "catis")
_ROWS: dict[tuple[str, int], str] = {
    ("vit_small_patch16_224", 13): (
        "73.59 14.35 35.07 14.71|70.64 12.97 34.33 14.67|69.19 13.48 31.68 13.97|"
        "66.60 12.28 30.84 14.13|70.55 12.44 33.42 13.46|70.93 13.93 34.27 14.74"
    ),
    ("vit_base_patch16_224", 13): (
        "76.50 21.21 41.24 16.59|74.25 19.55 40.95 16.85|73.74 20.76 39.01 16.41|"
        "72.22 18.92 38.55 16.60|74.19 18.97 40.50 16.17|74.61 20.93 41.04 16.89"
    ),
    ("vit_large_patch16_224", 11): (
        "83.64 43.27 60.89 45.55|43.14 6.57 24.86 19.25|20.47 3.00 10.95 7.44|"
        "65.49 21.72 39.26 29.92|43.08 6.00 25.26 20.15|81.03 43.65 59.76 45.12"
    ),
    ("deit3_small_patch16_224", 23): (
        "81.13 23.27 46.54 35.42|42.40 4.07 16.99 14.60|28.94 3.49 11.11 7.92|"
        "45.11 8.52 18.22 12.60|44.22 4.80 16.49 13.72|58.20 10.04 25.26 20.12"
    ),
    ("deit3_base_patch16_224", 23): (
        "83.38 36.75 36.80 54.07|62.16 8.89 30.57 24.93|47.96 7.65 22.15 17.01|"
        "59.46 17.53 29.13 20.74|63.50 9.89 31.41 25.62|73.85 25.44 43.96 33.44"
    ),
    ("deit3_large_patch16_224", 11): (
        "84.47 45.13 57.39 44.19|66.07 9.93 31.33 27.87|39.85 7.07 12.39 11.63|"
        "65.08 23.64 35.03 25.96|68.31 10.69 33.13 28.87|75.27 26.11 42.64 35.12"
    ),
    ("vit_7b_patch16_dinov3", 4): (
        "87.53 86.53 92.16 71.50|86.95 83.76 91.41 70.71|86.46 83.91 90.37 70.44|"
        "86.71 83.41 91.24 70.83|87.00 83.44 91.52 71.05|87.09 86.15 91.67 71.11"
    ),
}
"""Per method in the order of _METHODS, per data set in the order of DATA, as the paper prints them."""


def paper_top1(record: Record) -> float | None:
    """The paper's top-1 of the same model, method, r and data set; None where it has none, or weights are calibrated.

    Example:
        >>> paper_top1.__name__
        'paper_top1'
    """
    if record.corruption is not None or record.calibrated or record.data not in DATA or record.method not in _METHODS:
        return None
    base = record.model.split(".")[0]
    for (model, r), row in _ROWS.items():
        if model == base and (record.method == "vanilla" or record.r == r):
            return float(row.split("|")[_METHODS.index(record.method)].split()[DATA.index(record.data)])
    return None
