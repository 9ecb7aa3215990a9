"""Train one zoo model on the CPU: resumable, stoppable at any time, with a CSV log.

    python training/prerender.py                                    # once
    python training/train_zoo.py tiny-6 --steps 4000
    python training/train_zoo.py tiny-12 --grow tiny-6 --steps 1500

State lives in ``--dir`` as safetensors; run the same command again to continue after a stop.
"""

from __future__ import annotations

import argparse
import csv
import math
import time
from pathlib import Path

import numpy as np
import torch
from checkpoint import load_state, save_state
from grow import fresh_, grow_
from muon import BatchedMuon
from numpy.typing import NDArray
from safetensors.torch import load_file
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor
from torch.nn import functional

from catis.zoo.models import MEAN, STD, build
from catis.zoo.objects import CLASSES
from catis.zoo.scene import SIZE

Images = NDArray[np.uint8]


def parse() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--grow", help="start from this finished model of ours")
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--warmup", type=int, default=150)
    parser.add_argument("--decay", type=float, default=0.05, help="weight decay")
    parser.add_argument("--smooth", type=float, default=0.05, help="label smoothing")
    parser.add_argument("--dense", type=float, default=0.0, help="patch hints fade out over this share of the run")
    parser.add_argument("--teacher", help="distil from this finished model of ours")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--every", type=int, default=100, help="steps between log lines, checkpoints")
    parser.add_argument("--dir", type=Path, default=Path("/var/tmp/catis-train"))
    parser.add_argument("--tag", default="", help="suffix of state and log names, for pilots")
    return parser.parse_args()


def read_images(path: Path, channels: int = 3) -> Images:
    """Whole pre-rendered file, in memory."""
    return np.fromfile(path, dtype=np.uint8).reshape(-1, SIZE, SIZE, channels)


def shift_and_flip(images: Images, rng: np.random.Generator) -> Images:
    """Mirror half of them, move all by up to 8 pixels (border reflected)."""
    padded = np.pad(images, ((0, 0), (8, 8), (8, 8), (0, 0)), mode="reflect")
    out = np.empty_like(images)
    for i, (dy, dx, flip) in enumerate(rng.integers((0, 0, 0), (17, 17, 2), size=(len(images), 3))):
        crop = padded[i, dy : dy + SIZE, dx : dx + SIZE]
        out[i] = crop[:, ::-1] if flip else crop
    return out


def recolour(x: Tensor, rng: np.random.Generator) -> Tensor:
    """Contrast and brightness per channel."""
    n = len(x)
    gain = torch.from_numpy(rng.uniform(0.7, 1.3, (n, 3, 1, 1)).astype(np.float32))
    shift = torch.from_numpy(rng.uniform(-0.3, 0.3, (n, 3, 1, 1)).astype(np.float32))
    return x * gain + shift


def normalise(images: Images) -> Tensor:
    """Bytes to the models' input."""
    x = torch.from_numpy(images).permute(0, 3, 1, 2).float()
    mean = torch.tensor(MEAN).view(1, 3, 1, 1) * 255
    std = torch.tensor(STD).view(1, 3, 1, 1) * 255
    return (x - mean) / std


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


def patch_labels(masks: Images, labels: Tensor) -> Tensor:
    """Per patch: the image's class where the object covers it, 24 where it does not, -100 in between."""
    cover = torch.from_numpy(masks).float().unflatten(1, (-1, 8)).unflatten(3, (-1, 8)).mean((2, 4)).flatten(1) / 255
    background = torch.full_like(cover, len(CLASSES), dtype=torch.long)
    on = torch.where(cover > 0.3, labels[:, None], -100)
    return torch.where(cover < 0.03, background, on)


def dense_loss(scores: Tensor, targets: Tensor) -> Tensor:
    """Cross entropy over labelled patches; a background patch counts a tenth, there are so many."""
    weights = torch.ones(scores.shape[-1])
    weights[-1] = 0.1
    return functional.cross_entropy(scores.flatten(0, 1), targets.flatten(), weights)


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


def batch_ids(step: int, batch: int, total: int, seed: int) -> NDArray[np.int64]:
    """Images of a step: epochs are permutations, so a resumed run sees what an unbroken one would."""
    per_epoch = total // batch
    epoch, at = divmod(step, per_epoch)
    order = np.random.default_rng([seed, epoch]).permutation(total)
    return np.sort(order[at * batch : (at + 1) * batch])


def start(args: argparse.Namespace) -> VisionTransformer:
    """Fresh or grown model."""
    torch.manual_seed(args.seed)
    model = build(args.model)
    if args.grow:
        grow_(model, load_file(args.dir / f"{args.grow}.final.safetensors"))
    else:
        fresh_(model)
    return model.train()


def loss_of(logits: Tensor, labels: Tensor, smooth: float, teacher: Tensor | None) -> Tensor:
    """Cross entropy, half of it replaced by the teacher's distribution if there is one."""
    hard = functional.cross_entropy(logits, labels, label_smoothing=smooth)
    if teacher is None:
        return hard
    return 0.5 * hard + 0.5 * functional.cross_entropy(logits, teacher.softmax(1))


def main() -> None:
    """Train until ``--steps``, then write ``<model>.final.safetensors``."""
    args = parse()
    name = args.model + args.tag
    images, val = read_images(args.dir / "train.u8"), read_images(args.dir / "val.u8")
    model = start(args)
    hints = torch.nn.Linear(model.embed_dim, len(CLASSES) + 1)
    whole = torch.nn.ModuleDict({"model": model, "hints": hints})
    masks = read_images(args.dir / "masks.u8", 1) if args.dense else None
    opts = optimisers(whole, args.decay)
    state, log = args.dir / f"{name}.state.safetensors", args.dir / f"log-{name}.csv"
    step, seconds = load_state(state, whole, opts) if state.exists() else (0, 0.0)
    teacher = None
    if args.teacher:
        teacher = build(args.teacher).eval()
        teacher.load_state_dict(load_file(args.dir / f"{args.teacher}.final.safetensors"))
    losses: list[float] = []
    hits = 0
    clock = time.perf_counter()
    while step < args.steps:
        ids = batch_ids(step, args.batch, len(images), args.seed)
        rng = np.random.default_rng([args.seed, 1, step])
        labels = torch.from_numpy(ids % len(CLASSES))
        picked = images[ids] if masks is None else np.concatenate([images[ids], masks[ids]], axis=3)
        picked = shift_and_flip(picked, rng)
        x = recolour(normalise(np.ascontiguousarray(picked[..., :3])), rng)
        lr = rate(step, args.steps, args.lr, args.warmup)
        for opt in opts:
            for group in opt.param_groups:
                group["lr"] = lr
        tokens = model.forward_features(x)
        logits = model.forward_head(tokens)
        with torch.no_grad():
            soft = None if teacher is None else teacher(x)
        loss = loss_of(logits, labels, args.smooth, soft)
        weight = max(0.0, 1.0 - step / (args.dense * args.steps)) if args.dense else 0.0
        if weight > 0:
            patches = tokens[:, model.num_prefix_tokens :]
            loss = loss + weight * dense_loss(hints(patches), patch_labels(picked[..., 3], labels))
        loss.backward()
        for opt in opts:
            opt.step()
            opt.zero_grad(set_to_none=True)
        losses.append(float(loss.detach()))
        hits += int((logits.argmax(1) == labels).sum())
        step += 1
        if step % args.every == 0 or step == args.steps:
            now = time.perf_counter()
            seconds += now - clock
            speed = len(losses) * args.batch / (now - clock)
            row = [step, round(seconds, 1), round(speed, 1), f"{lr:.3g}", f"{np.mean(losses):.4f}",
                   f"{hits / len(losses) / args.batch:.4f}", f"{accuracy(model, val):.4f}"]  # fmt: skip
            write_row(log, row)
            losses, hits = [], 0
            save_state(state, whole, opts, step, seconds)
            clock = time.perf_counter()
    save_state(args.dir / f"{name}.final.safetensors", model, [], step, seconds)


def write_row(log: Path, row: list[object]) -> None:
    """Append one line to the log, with a header if it is new."""
    fresh = not log.exists()
    with log.open("a", newline="") as file:
        writer = csv.writer(file)
        if fresh:
            writer.writerow(["step", "seconds", "images_per_s", "lr", "loss", "train_acc", "val_acc"])
        writer.writerow(row)
    print(*row, flush=True)


if __name__ == "__main__":
    main()
