"""Ship a finished model: float16 safetensors and its card, measured with the very bytes that ship.

python training/export.py tiny-12 --n 2400 --recipe "grown from tiny-6; 700 steps of 64 images"
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from catis import zoo
from catis.data.corruptions import CORRUPTIONS

REPO = Path(__file__).parents[1]
WEIGHTS = REPO / "src/catis/zoo/weights"


def parse() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--n", type=int, default=2400, help="clean images; the other views use half, corrupted 15 x 48")
    parser.add_argument("--recipe", default="")
    parser.add_argument("--dir", type=Path, default=Path("/var/tmp/catis-train"))
    parser.add_argument("--state", action="store_true", help="ship an unfinished run's weights from its checkpoint")
    return parser.parse_args()


@torch.inference_mode()
def hits(model: torch.nn.Module, data: zoo.ZooDataset) -> int:
    """Right answers on a data set."""
    return sum(int((model(x).argmax(1) == y).sum()) for x, y in data.batches(120))


def measure(model: torch.nn.Module, n: int) -> dict[str, dict[str, Any]]:
    """Accuracy per view, each with its n."""
    out: dict[str, dict[str, Any]] = {}
    for view, count in (("clean", n), ("hard", n // 2), ("renditions", n // 2), ("sketch", n // 2)):
        right = hits(model, zoo.dataset(view, n=count))
        out[view] = {"accuracy": round(right / count, 4), "n": count}
    for severity in (3, 5):
        right = {c: hits(model, zoo.dataset("corrupted", n=48, corruption=c, severity=severity)) for c in CORRUPTIONS}
        total = 48 * len(CORRUPTIONS)
        out[f"corrupted-{severity}"] = {"accuracy": round(sum(right.values()) / total, 4), "n": total}
    return out


def write_weights(source: Path, name: str) -> tuple[str, dict[str, str]]:
    """Write the float16 file; returns its sha256 and the checkpoint's step and seconds."""
    tensors = load_file(source)
    if any(key.startswith("model.") for key in tensors):
        tensors = {k.removeprefix("model."): v for k, v in tensors.items() if k.startswith("model.")}
    target = WEIGHTS / f"{name}.safetensors"
    save_file({k: v.to(torch.float16).contiguous() for k, v in tensors.items()}, target)
    target.chmod(0o644)
    with safe_open(source, framework="pt") as file:
        meta = file.metadata()
    return hashlib.sha256(target.read_bytes()).hexdigest(), meta


def write_card(name: str, card: dict[str, Any]) -> None:
    """Put one card into cards.json, whole or not at all."""
    path = WEIGHTS / "cards.json"
    cards = json.loads(path.read_text()) if path.exists() else {}
    cards[name] = card
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(cards, indent=1, sort_keys=True) + "\n")
    partial.replace(path)


def main() -> None:
    """Export, measure, write the card, keep the log."""
    args = parse()
    source = args.dir / f"{args.model}.{'state' if args.state else 'final'}.safetensors"
    digest, meta = write_weights(source, args.model)
    card: dict[str, Any] = {
        "file": f"{args.model}.safetensors",
        "sha256": digest,
        "steps": int(meta["step"]),
        "seconds": round(float(meta["seconds"])),
        "recipe": args.recipe,
    }
    write_card(args.model, card)
    card["views"] = measure(zoo.load(args.model), args.n)
    write_card(args.model, card)
    shutil.copy(args.dir / f"log-{args.model}.csv", REPO / "training" / f"log-{args.model}.csv")
    print(json.dumps(card["views"]))


if __name__ == "__main__":
    main()
