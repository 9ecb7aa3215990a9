"""How much of the saved multiply-adds becomes time, on this machine, and why not all of it."""

from catis.bench.report import Report, Row
from catis.bench.roofline import Roofline
from catis.bench.run import bench_model
from catis.bench.run_files import bench_files
from catis.bench.settings import PRESETS, Precision, Protocol, Settings
from catis.bench.timing import paired_ratio, time_rounds

__all__ = [
    "PRESETS", "Precision", "Protocol", "Report", "Roofline", "Row", "Settings", "bench_files", "bench_model",
    "paired_ratio", "time_rounds",
]  # fmt: skip
