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

import numpy as np
import torch
from feed import Images
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor

from catis import zoo
from catis.data.corruptions import CORRUPTIONS
from catis.zoo.models import DEPTHS, build

REPO = Path(__file__).parents[1]
WEIGHTS = REPO / "src/catis/zoo/weights"
RECIPES = {
    "tiny-6": "from scratch: peak lr 1.5e-3, patch hints fading out over the first 60 %; --steps was cut from 3400 to "
    "2400, 2000 and 1851 on the way, see the log",
    "tiny-12": "grown from tiny-6: peak lr 1e-3, warm-up 40; --steps was cut from 600 to 400 and 355 on the way",
    "tiny-12-gap": "grown from tiny-6 without its CLS token: peak lr 1e-3, warm-up 40; --steps cut from 350 to 310",
    "tiny-18": "grown from tiny-12: peak lr 6e-4, warm-up 20; --steps was cut from 220 to 125 on the way",
    "tiny-24": "grown from tiny-12: peak lr 6e-4, warm-up 20; --steps was cut from 180 to 105 on the way",
}


def parse() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--n", type=int, default=2400, help="clean images; corrupted has 15 x 48 per severity")
    parser.add_argument("--others", type=int, default=1200, help="images of hard, renditions, sketch; at most n / 2")
    parser.add_argument("--dir", type=Path, default=Path("/var/tmp/catis-train"))
    parser.add_argument("--state", action="store_true", help="ship an unfinished run's weights from its checkpoint")
    return parser.parse_args()


def held_out_sets(n: int) -> dict[str, list[zoo.ZooDataset]]:
    """What every view is measured on."""
    sets = {"clean": [zoo.dataset("clean", n=n)]}
    sets |= {view: [zoo.dataset(view, n=n // 2)] for view in ("hard", "renditions", "sketch")}
    for severity in (3, 5):
        same = [zoo.dataset("corrupted", n=48, corruption=c, severity=severity) for c in CORRUPTIONS]
        sets[f"corrupted-{severity}"] = same
    return sets


def drawn(parts: list[zoo.ZooDataset], cache: Path) -> tuple[Images, Tensor]:
    """Images and labels of a view, kept in a file: several models are measured on the same ones."""
    if not cache.exists():
        np.save(cache, np.stack([image for part in parts for image, _ in part]), allow_pickle=False)
    images: Images = np.load(cache, allow_pickle=False)
    labels = torch.cat([torch.arange(len(part)) % len(part.classes) for part in parts])
    if len(images) != len(labels):
        raise ValueError(f"{cache} holds {len(images)} images, expected {len(labels)}: delete it")
    return images, labels


@torch.inference_mode()
def measure(model: VisionTransformer, n: int, others: int, folder: Path) -> dict[str, dict[str, float]]:
    """Accuracy per view, each with its n."""
    out = {}
    for view, parts in held_out_sets(n).items():
        images, labels = drawn(parts, folder / f"test-{view}-{n}.npy")
        if view in ("hard", "renditions", "sketch"):
            images, labels = images[:others], labels[:others]
        guesses = [model(zoo.normalise(images[at : at + 120])).argmax(1) for at in range(0, len(images), 120)]
        right = int((torch.cat(guesses) == labels).sum())
        out[view] = {"accuracy": round(right / len(labels), 4), "n": len(labels)}
        print(view, out[view], flush=True)
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


def write_table() -> None:
    """Put the cards' numbers into docs/zoo.md, between its two table marks."""
    views = ("clean", "hard", "renditions", "sketch", "corrupted-3", "corrupted-5")
    heads = ["model", *views, "steps", "seconds", "how"]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for name, card in sorted(zoo.cards().items(), key=lambda item: list(DEPTHS).index(item[0])):
        scores = [f"{card['views'][v]['accuracy']:.1%} ({card['views'][v]['n']})" for v in views]
        cells = [name, *scores, str(card["steps"]), str(card["seconds"]), card["recipe"]]
        lines.append("| " + " | ".join(cells) + " |")
    page = REPO / "docs/zoo.md"
    before, rest = page.read_text().split("<!-- table -->")
    after = rest.split("<!-- /table -->")[1]
    page.write_text(before + "<!-- table -->\n" + "\n".join(lines) + "\n<!-- /table -->" + after)


def card_of(name: str, source: Path) -> dict[str, Any]:
    """Everything but the accuracies; writes the weights."""
    digest, meta = write_weights(source, name)
    return {
        "file": f"{name}.safetensors",
        "sha256": digest,
        "steps": int(meta["step"]),
        "batch": 64,
        "seconds": round(float(meta["seconds"])),
        "recipe": RECIPES[name],
    }


def main() -> None:
    """Export, measure, write the cards, keep the logs."""
    args = parse()
    suffix = "state" if args.state else "final"
    for name in args.models:
        card = card_of(name, args.dir / f"{name}.{suffix}.safetensors")
        model = build(name).eval()
        model.load_state_dict({k: v.float() for k, v in load_file(WEIGHTS / card["file"]).items()})
        card["views"] = measure(model, args.n, args.others, args.dir)
        write_card(name, card)
        shutil.copy(args.dir / f"log-{name}.csv", REPO / "training" / f"log-{name}.csv")
        print(name, json.dumps(card["views"]), flush=True)
    write_table()


if __name__ == "__main__":
    main()
