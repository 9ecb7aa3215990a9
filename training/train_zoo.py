"""Train one zoo model on the CPU: resumable, stoppable at any time, with a CSV log.

    python training/prerender.py                                    # once; see training/README.md
    python training/train_zoo.py tiny-6 --steps 2000 --dense 0.6
    python training/train_zoo.py tiny-12 --grow tiny-6 --steps 700

State lives in ``--dir`` as safetensors; run the same command again to continue after a stop.
"""

from __future__ import annotations

import argparse
import csv
import math
import time
from pathlib import Path

import torch
from checkpoint import load_state, save_state
from feed import Batch, Images, make_batch, read_images
from grow import fresh_, grow_
from muon import BatchedMuon
from safetensors.torch import load_file
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor
from torch.nn import functional

from catis.zoo import normalise
from catis.zoo.models import build, load
from catis.zoo.objects import CLASSES


def parse() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--grow", help="start from this finished model of ours, or from the shipped one")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1.5e-3)
    parser.add_argument("--warmup", type=int, default=150)
    parser.add_argument("--decay", type=float, default=0.05, help="weight decay")
    parser.add_argument("--smooth", type=float, default=0.05, help="label smoothing")
    parser.add_argument("--dense", type=float, default=0.0, help="patch hints fade out over this share of the run")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--every", type=int, default=50, help="steps between log lines, checkpoints")
    parser.add_argument("--dir", type=Path, default=Path("/var/tmp/catis-train"))
    return parser.parse_args()


def start(args: argparse.Namespace) -> VisionTransformer:
    """Fresh or grown model."""
    torch.manual_seed(args.seed)
    model = build(args.model)
    if args.grow:
        ours = args.dir / f"{args.grow}.final.safetensors"
        grow_(model, load_file(ours) if ours.exists() else load(args.grow).state_dict())
    else:
        fresh_(model)
    return model.train()


def optimisers(model: torch.nn.Module, decay: float) -> list[torch.optim.Optimizer]:
    """Muon for the matrices of the blocks, AdamW for everything else."""
    inner = [p for n, p in model.named_parameters() if ".blocks." in n and p.ndim == 2]
    chosen = {id(p) for p in inner}
    outer = [p for p in model.parameters() if id(p) not in chosen]
    muon = BatchedMuon(inner, weight_decay=decay)
    return [muon, torch.optim.AdamW(outer, weight_decay=0.0, betas=(0.9, 0.98), fused=True)]


def rate(step: int, steps: int, peak: float, warmup: int) -> float:
    """Linear warm-up, then half a cosine to zero."""
    if step < warmup:
        return peak * (step + 1) / warmup
    done = min(1.0, (step - warmup) / max(1, steps - warmup))
    return peak * 0.5 * (1.0 + math.cos(math.pi * done))


def dense_loss(scores: Tensor, targets: Tensor) -> Tensor:
    """Cross entropy over labelled patches; a background patch counts a tenth, there are so many."""
    weights = torch.ones(scores.shape[-1])
    weights[-1] = 0.1
    return functional.cross_entropy(scores.flatten(0, 1), targets.flatten(), weights)


@torch.inference_mode()
def accuracy(model: VisionTransformer, images: Images) -> float:
    """Top-1 on images whose label is their index modulo the number of classes."""
    model.eval()
    hits = 0
    for at in range(0, len(images), 240):
        guess = model(normalise(images[at : at + 240])).argmax(1)
        hits += int((guess == (torch.arange(len(guess)) + at) % len(CLASSES)).sum())
    model.train()
    return hits / len(images)


class Run:
    """One training run: model, optimisers, progress."""

    def __init__(self, args: argparse.Namespace) -> None:
        """Start afresh or continue from the run's checkpoint."""
        self.args = args
        self.model = start(args)
        self.hints = torch.nn.Linear(self.model.embed_dim, len(CLASSES) + 1)
        self.whole = torch.nn.ModuleDict({"model": self.model, "hints": self.hints})
        self.opts = optimisers(self.whole, args.decay)
        self.state = args.dir / f"{args.model}.state.safetensors"
        self.done, self.seconds = load_state(self.state, self.whole, self.opts) if self.state.exists() else (0, 0.0)

    def loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Loss, and how many were right."""
        tokens = self.model.forward_features(batch.images)
        logits = self.model.forward_head(tokens)
        loss = functional.cross_entropy(logits, batch.labels, label_smoothing=self.args.smooth)
        if batch.patches is not None:
            weight = max(0.0, 1.0 - self.done / (self.args.dense * self.args.steps))
            scores = self.hints(tokens[:, self.model.num_prefix_tokens :])
            loss = loss + weight * dense_loss(scores, batch.patches)
        return loss, (logits.argmax(1) == batch.labels).sum()

    def step(self, batch: Batch) -> tuple[float, int]:
        """One update."""
        lr = rate(self.done, self.args.steps, self.args.lr, self.args.warmup)
        loss, right = self.loss(batch)
        loss.backward()
        for opt in self.opts:
            for group in opt.param_groups:
                group["lr"] = lr
            opt.step()
            opt.zero_grad(set_to_none=True)
        self.done += 1
        return float(loss.detach()), int(right)

    def stretch(self, images: Images, masks: Images | None) -> tuple[float, float, float]:
        """Train up to the next log line; returns speed, mean loss, accuracy."""
        clock, losses, hits = time.perf_counter(), [], 0
        args = self.args
        hinted = masks if self.done < args.dense * args.steps else None
        while True:
            loss, right = self.step(make_batch(images, hinted, self.done, args.batch, args.seed))
            losses.append(loss)
            hits += right
            if self.done % args.every == 0 or self.done >= args.steps:
                break
        spent, seen = time.perf_counter() - clock, len(losses) * args.batch
        self.seconds += spent
        return seen / spent, sum(losses) / len(losses), hits / seen


def write_row(log: Path, row: list[object]) -> None:
    """Append one line to the log, with a header if it is new."""
    fresh = not log.exists()
    with log.open("a", newline="") as file:
        writer = csv.writer(file)
        if fresh:
            writer.writerow(["step", "seconds", "images_per_s", "lr", "loss", "train_acc", "val_acc"])
        writer.writerow(row)
    print(*row, flush=True)


def main() -> None:
    """Train until ``--steps``, then write ``<model>.final.safetensors``."""
    args = parse()
    images, val = read_images(args.dir / "train.u8"), read_images(args.dir / "val.u8")
    masks = read_images(args.dir / "masks.u8", 1) if args.dense else None
    run = Run(args)
    while run.done < args.steps:
        lr = rate(run.done, args.steps, args.lr, args.warmup)
        speed, loss, right = run.stretch(images, masks)
        row = [run.done, f"{run.seconds:.1f}", f"{speed:.1f}", f"{lr:.3g}", f"{loss:.4f}", f"{right:.4f}"]
        write_row(args.dir / f"log-{args.model}.csv", [*row, f"{accuracy(run.model, val):.4f}"])
        save_state(run.state, run.whole, run.opts, run.done, run.seconds)
    save_state(args.dir / f"{args.model}.final.safetensors", run.model, [], run.done, run.seconds)


if __name__ == "__main__":
    main()
