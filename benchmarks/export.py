"""ONNX Runtime on CPU: the exported reduced model against the unreduced export, in one run.

    python benchmarks/export.py                       # ViT-S, r=13, every method
    python benchmarks/export.py --model vit_base_patch16_224 -r 13 --methods catis

The two are timed in turns, so that a slow minute of the machine hits both; the figure is the median of the ratios.
Efficiency = speed-up over the ratio of multiply-adds, the most that token reduction can give.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import tempfile
import time
from pathlib import Path

import onnxruntime
import timm
import torch

import catis
from catis.export import export_onnx


def session(path: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def interleaved(
    plain: onnxruntime.InferenceSession, reduced: onnxruntime.InferenceSession, batch: int, rounds: int, size
):
    """Seconds of (plain, reduced), one pair per round."""
    feed = {"pixel_values": torch.randn(batch, *size).numpy()}
    pairs = []
    for turn in range(rounds + 3):
        seconds = []
        for net in (plain, reduced):
            start = time.perf_counter()
            net.run(None, feed)
            seconds.append(time.perf_counter() - start)
        if turn >= 3:  # the first ones warm up
            pairs.append(tuple(seconds))
    return pairs


def export(name: str, method: str | None, r: int, folder: Path) -> tuple[Path, float]:
    model = timm.create_model(name).eval()
    if method is not None:
        catis.apply(model, method, r=r)
    path = folder / f"{method or 'plain'}.onnx"
    if not path.exists():
        report = export_onnx(model, path)
        print(f"{method or 'plain':7s} exported, worst difference from PyTorch {report.worst:.1e}", flush=True)
    return path, catis.gmacs(model)


def measure(args: argparse.Namespace, folder: Path) -> list[dict[str, object]]:
    path, macs = export(args.model, None, 0, folder)
    plain, size = session(path), tuple(timm.create_model(args.model).pretrained_cfg["input_size"])
    rows = []
    for method in args.methods:
        path, reduced_macs = export(args.model, method, args.r, folder)
        for batch in args.batch:
            pairs = interleaved(plain, session(path), batch, args.rounds, size)
            speedup = statistics.median(slow / fast for slow, fast in pairs)
            ratio = macs / reduced_macs
            milliseconds = [1e3 * statistics.median(column) / batch for column in zip(*pairs, strict=True)]
            rows.append({
                "model": args.model, "method": method, "r": args.r, "batch": batch, "rounds": args.rounds,
                "plain_ms_per_image": round(milliseconds[0], 2), "reduced_ms_per_image": round(milliseconds[1], 2),
                "speedup": round(speedup, 3), "gmacs_ratio": round(ratio, 3), "efficiency": round(speedup / ratio, 3),
            })  # fmt: skip
            print(json.dumps(rows[-1]), flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="vit_small_patch16_224")
    parser.add_argument("-r", type=int, default=13)
    parser.add_argument("--methods", nargs="+", default=["tome", "tofu", "pitome", "catis"])
    parser.add_argument("--batch", nargs="+", type=int, default=[1, 8])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--folder", type=Path, help="keep the exported files here, and use those that are there")
    parser.add_argument("--output", type=Path, help="write the rows as JSON")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(f"onnxruntime {onnxruntime.__version__}, 1 thread, {platform.processor() or platform.machine()}", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        rows = measure(args, folder)
    if args.output:
        args.output.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
