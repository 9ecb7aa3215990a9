"""int8 on top of token reduction: how often a quantised reduced ViT still agrees with its float self.

    python benchmarks/quantize.py --model vit_tiny_patch16_224 --weights FILE.safetensors --images FOLDER -n 300

Linear layers are quantised by torchao: int8 weights per channel, int8 activations per token, ranges taken at run time.
Agreement is the share of images with the same top-1 class; no labels are needed.
"""

from __future__ import annotations

import argparse
import copy
import json
from pathlib import Path

import timm
import torch
from PIL import Image
from safetensors.torch import load_file
from timm.data import create_transform
from torch import Tensor, nn
from torchao.quantization import Int8DynamicActivationInt8WeightConfig, quantize_

import catis


def images(folder: Path, limit: int, mean: tuple[float, ...], std: tuple[float, ...]) -> Tensor:
    """An even sample of a folder, preprocessed."""
    files = sorted(file for file in folder.rglob("*") if file.suffix.lower() in (".jpg", ".jpeg", ".png", ".webp"))
    transform = create_transform((3, 224, 224), mean=mean, std=std, crop_pct=0.9, interpolation="bicubic")
    chosen = files[:: max(1, len(files) // limit)][:limit]
    return torch.stack([transform(Image.open(file).convert("RGB")) for file in chosen])


@torch.no_grad()
def logits(model: nn.Module, pixels: Tensor) -> Tensor:
    return torch.cat([model(batch) for batch in pixels.split(16)])


def quantised(model: nn.Module) -> nn.Module:
    other = copy.deepcopy(model)
    quantize_(other, Int8DynamicActivationInt8WeightConfig())
    return other


def agreement(first: Tensor, second: Tensor) -> float:
    return round((first.argmax(-1) == second.argmax(-1)).float().mean().item(), 4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="vit_tiny_patch16_224")
    parser.add_argument("--weights", type=Path, help=".safetensors; without it timm's pretrained ones")
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("-n", type=int, default=300)
    parser.add_argument("-r", type=int, default=13)
    parser.add_argument("--methods", nargs="+", default=["tome", "catis"])
    args = parser.parse_args()
    torch.set_num_threads(1)
    model = timm.create_model(args.model, pretrained=args.weights is None).eval()
    if args.weights is not None:
        model.load_state_dict({key: value.float() for key, value in load_file(args.weights).items()})
    pixels = images(args.images, args.n, model.pretrained_cfg["mean"], model.pretrained_cfg["std"])
    plain = logits(model, pixels)
    alone = agreement(logits(quantised(model), pixels), plain)
    row = {"model": args.model, "n": len(pixels), "method": "none", "int8_agrees_with_float": alone}
    print(json.dumps(row), flush=True)
    for method in args.methods:
        catis.apply(model, method, r=args.r)
        reduced, small = logits(model, pixels), logits(quantised(model), pixels)
        row = {"model": args.model, "n": len(pixels), "method": method, "r": args.r,
               "int8_agrees_with_float": agreement(small, reduced),
               "reduced_agrees_with_plain": agreement(reduced, plain),
               "reduced_int8_agrees_with_plain": agreement(small, plain)}  # fmt: skip
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
