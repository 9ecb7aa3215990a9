"""What int8 costs trained models: classes of exported files against vanilla's, on images that nobody calibrated on.

    python benchmarks/int8.py --weights FOLDER --images imagenet1000 -n 400 --output results/int8.csv

The same figures as `catis export MODEL --checkpoint FOLDER/MODEL.safetensors --budget 0.5 --onnx F.onnx --ir F.xml
--int8 --data IMAGES -n 400` prints, but without its refusal: a bad row must be seen as well. A row is written as soon
as it is measured. No labels are used.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from dataclasses import asdict
from pathlib import Path

import catis
from catis import hosts
from catis.data.images import ImageFolder
from catis.export import Wanted, deploy, split_images
from catis.models import load_model

MODELS = ("deit_tiny_patch16_224", "vit_tiny_patch16_224")
RUNTIME = {".onnx": "onnxruntime", ".xml": "openvino"}


def measure(name: str, budget: float, args: argparse.Namespace):
    """Rows of one model: ONNX Runtime's int8, then OpenVINO's."""
    model = load_model(name, args.weights / f"{name}.safetensors", False).eval()
    images = split_images(ImageFolder(args.images, hosts.find(model).preprocessing(), args.n))
    catis.apply(model, args.method, budget=budget)
    with tempfile.TemporaryDirectory() as folder:
        files = {"onnx": Path(folder) / "model.onnx", "ir": Path(folder) / "model.xml"}
        wanted = Wanted(**{kind: files[kind] for kind in args.kinds}, images=images, max_drop=100.0)
        for report, found in deploy(model, wanted, tell=lambda what: print(f"  {what}", flush=True)):
            yield {
                "model": name, "method": args.method, "budget": budget, "runtime": RUNTIME[report.path.suffix],
                "calibrated_on": len(images.calibration), **asdict(found), "points_lost": found.drop,
            }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", type=Path, required=True, help="folder with MODEL.safetensors")
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True, help="CSV file that the rows are added to")
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--budgets", nargs="+", type=float, default=[0.5])
    parser.add_argument("--kinds", nargs="+", choices=("onnx", "ir"), default=["onnx", "ir"])
    parser.add_argument("--method", default="catis")
    parser.add_argument("-n", type=int, default=400)
    args = parser.parse_args()
    for name in args.models:
        for budget in args.budgets:
            for row in measure(name, budget, args):
                print(row, flush=True)
                new = not args.output.exists()
                with args.output.open("a", newline="") as opened:
                    writer = csv.DictWriter(opened, list(row))
                    if new:
                        writer.writeheader()
                    writer.writerow(row)


if __name__ == "__main__":
    main()
