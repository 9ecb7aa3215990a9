"""Render the training split once into a flat uint8 file, so that training only reads."""

from __future__ import annotations

import argparse
import time
from multiprocessing import Pool
from pathlib import Path

import numpy as np

from catis.zoo.objects import CLASSES
from catis.zoo.render import paint, quantise, silhouette
from catis.zoo.scene import SIZE, draw_scene
from catis.zoo.streams import stream

CHUNK = 480


def _chunk(job: tuple[str, int, int, int, bool]) -> tuple[int, bytes]:
    split, seed, start, count, masks = job
    out = []
    for i in range(start, start + count):
        rng = stream("clean", split, seed, i)
        scene = draw_scene(rng, i % len(CLASSES))
        out.append(quantise(silhouette(scene) if masks else paint(rng, scene)))
    return start, np.stack(out).tobytes()


def main() -> None:
    """Render ``--n`` clean images of ``--split`` into ``--out``; done files are left alone."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--split", default="train")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--n", type=int, default=48000)
    parser.add_argument("--out", type=Path, default=Path("/var/tmp/catis-train/train.u8"))
    parser.add_argument("--masks", action="store_true", help="object silhouettes instead of images")
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    if args.out.exists():
        print(f"{args.out} exists, nothing to do")
        return
    args.out.parent.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    jobs = [(args.split, args.seed, at, min(CHUNK, args.n - at), args.masks) for at in range(0, args.n, CHUNK)]
    partial = args.out.with_suffix(".partial")
    with partial.open("wb") as file, Pool(args.workers) as pool:
        for at, data in pool.imap(_chunk, jobs):
            file.seek(at * SIZE * SIZE * (1 if args.masks else 3))
            file.write(data)
    partial.rename(args.out)
    print(f"{args.n} images in {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
