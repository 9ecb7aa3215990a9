"""Dense features of reduced models: cosine of un-merged patches to vanilla's, and mIoU of a linear probe; two fills.

`python benchmarks/dense.py --n 200 --out results/dense.csv` uses the zoo's models and images, whose masks are known:
the probe is fitted by ridge regression on vanilla's patch features of `n` training images and judges `n` test images.
`--weights FILE.safetensors --images DIR` adds timm's deit_tiny_patch16_224 with these weights on these images (cosine).

Fills of a merged patch: "group", its group's vector; "delta", the last vector of its own plus what its group changed by
since. An evicted patch has the size-weighted mean of the survivors in both.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import timm
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor

from catis import hosts, zoo
from catis.core.block import BlockRecord
from catis.core.execute import execute, unmerge
from catis.core.reduction import Reduction
from catis.core.rows import take_rows
from catis.core.state import TokenState
from catis.data.images import BrokenImage, ImageFolder
from catis.inference import batch_images
from catis.report.table import Table
from catis.zoo.render import silhouette
from catis.zoo.scene import draw_scene
from catis.zoo.streams import stream

METHODS = {
    "tome": {},
    "tofu": {},
    "pitome": {},
    "mctf": {},
    "catis": {},
    "catis, evict_ratio=0": {"evict_ratio": 0.0},
}
FILLS = ("group", "delta")


class Offsets:
    """A recorder of how far each original patch was from its token whenever tokens merged, added up."""

    def __init__(self, batch: int, patches: int, prefix: int) -> None:
        self.state = TokenState.start(prefix, patches, batch, track=True)
        self.tokens: Tensor | None = None
        self.offset: Tensor | None = None

    def __call__(self, block: BlockRecord) -> None:
        """Add the way that the patches of this block went."""
        self.tokens = block.tokens
        if block.plan is not None and block.view is not None:
            prefix = self.state.num_prefix
            merged, after = execute(block.plan, block.view.residual, self.state)
            before = self._of_patches(block.view.residual[:, prefix:], self.state)
            way = before - self._of_patches(merged[:, prefix:], after)
            self.offset = way if self.offset is None else self.offset + way
        self.state = block.state

    @staticmethod
    def _of_patches(tokens: Tensor, state: TokenState) -> Tensor:
        assert state.provenance is not None
        return take_rows(tokens, state.provenance.clamp_min(0))

    def grids(self, norm: Any) -> dict[str, Tensor]:
        """(B, N_p, C) features of all patches, by either fill."""
        assert self.tokens is not None
        prefix = self.state.num_prefix
        group = unmerge(self.tokens, self.state)[:, prefix:]
        assert self.state.provenance is not None
        alive = (self.state.provenance >= 0).unsqueeze(-1)
        delta = group if self.offset is None else torch.where(alive, group + self.offset, group)
        return {"group": norm(group), "delta": norm(delta)}


def features(model: Any, reduction: Reduction, images: Tensor) -> dict[str, Tensor]:
    """(B, N_p, C) patch features of a timm model under a reduction, by either fill."""
    handle = hosts.find(model)
    patches = (images.shape[-1] // model.patch_embed.patch_size[0]) ** 2
    offsets = Offsets(len(images), patches, handle.facts.num_prefix)
    handle.run(handle.facts.bound(reduction), offsets, images)
    return offsets.grids(model.norm)


def zoo_images(split: str, n: int, patch: int) -> tuple[Tensor, Tensor]:
    """Clean images and (n, patches) which patches the object covers by more than half."""
    images, masks = [], []
    data = zoo.dataset("clean", split, n)
    for index in range(n):
        image, label = data[index]
        images.append(zoo.normalise(image[None]))
        cover = torch.from_numpy(silhouette(draw_scene(stream("clean", split, 0, index), label)))
        masks.append(F.avg_pool2d(cover[None, None], patch).flatten() > 0.5)
    return torch.cat(images), torch.stack(masks)


def fit_probe(x: Tensor, y: Tensor) -> Tensor:
    """(C + 1,) ridge regression of 0/1 masks (n, N_p) on features (n, N_p, C)."""
    rows = F.pad(x.flatten(0, 1).double(), (0, 1), value=1.0)
    gram = rows.T @ rows + 1e-2 * len(rows) * torch.eye(rows.shape[1], dtype=torch.float64)
    return torch.linalg.solve(gram, rows.T @ y.flatten().double())


def mean_iou(x: Tensor, y: Tensor, probe: Tensor) -> float:
    """Mean of the intersection over union of object and background, over all patches, in percent."""
    found = (F.pad(x.double(), (0, 1), value=1.0) @ probe) > 0.5
    ious = [((found == side) & (y == side)).sum() / ((found == side) | (y == side)).sum() for side in (True, False)]
    return 100 * float(torch.stack(ious).mean())


def batches(images: Tensor, size: int = 50) -> Iterator[Tensor]:
    yield from images.split(size)


def measure(model: Any, images: Tensor, rs: tuple[int, ...], probe: Tensor | None, masks: Tensor | None) -> list[Any]:
    """One row per method, r and fill."""
    vanilla = torch.cat([features(model, Reduction.none(), part)["group"] for part in batches(images)])
    rows = []
    if probe is not None and masks is not None:
        rows.append(["vanilla", 0, "", 1.0, round(mean_iou(vanilla, masks, probe), 2), len(images)])
    for name, options in METHODS.items():
        for r in rs:
            reduction = Reduction.of(name.split(",")[0], r, **options)
            parts = [features(model, reduction, part) for part in batches(images)]
            for fill in FILLS:
                grid = torch.cat([part[fill] for part in parts])
                cosine = float(F.cosine_similarity(grid, vanilla, dim=-1).mean())
                iou = round(mean_iou(grid, masks, probe), 2) if probe is not None and masks is not None else None
                rows.append([name, r, fill, round(cosine, 4), iou, len(images)])
    return rows


@torch.inference_mode()
def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=200, help="images to judge, and as many to fit the probe on")
    parser.add_argument("--models", nargs="*", default=["tiny-12", "tiny-12-gap"], help="zoo models")
    parser.add_argument("-r", type=int, nargs="*", default=[4, 8], help="tokens per block")
    parser.add_argument("--weights", type=Path, help="deit_tiny_patch16_224 as .safetensors")
    parser.add_argument("--images", type=Path, help="a directory of images for it")
    parser.add_argument("--out", type=Path, help="a CSV file")
    chosen = parser.parse_args()
    rows = []
    for name in chosen.models:
        model = zoo.load(name)
        train, truth = zoo_images("train", chosen.n, 8)
        probe = fit_probe(
            torch.cat([features(model, Reduction.none(), part)["group"] for part in batches(train)]), truth
        )
        rows += [[name, *row] for row in measure(model, *_test(chosen.n, tuple(chosen.r), probe))]
    if chosen.weights:
        model = timm.create_model("deit_tiny_patch16_224").eval()
        model.load_state_dict(load_file(chosen.weights))
        wants = hosts.find(model).preprocessing()
        folder = ImageFolder(chosen.images, wants)
        read = [folder.read(index) for index in range(0, len(folder), max(1, len(folder) // chosen.n))][: chosen.n]
        images = batch_images([pixels for pixels in read if not isinstance(pixels, BrokenImage)], wants, model)
        rows += [["deit_tiny", *row] for row in measure(model, images, tuple(chosen.r), None, None)]
    table = Table(["model", "method", "r", "fill", "cosine", "mIoU", "n"], rows)
    print(table.markdown())
    if chosen.out:
        chosen.out.write_text(table.csv())


def _test(n: int, rs: tuple[int, ...], probe: Tensor) -> tuple[Tensor, tuple[int, ...], Tensor, Tensor]:
    images, masks = zoo_images("test", n, 8)
    return images, rs, probe, masks


if __name__ == "__main__":
    main()
