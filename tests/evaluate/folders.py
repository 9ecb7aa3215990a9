"""Small data sets on disk, for tests."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

import catis.zoo

IDS = ("n01443537", "n01484850", "n02099601")
"""WordNet ids of classes 1, 2 and 207 of ImageNet; all three are classes of ImageNet-R."""


def write_images(root: Path, folders: Sequence[str], each: int = 2, size: int = 40) -> Path:
    rng = np.random.default_rng(0)
    for folder in folders:
        (root / folder).mkdir(parents=True)
        for i in range(each):
            Image.fromarray(rng.integers(0, 256, (size, size, 3), dtype=np.uint8)).save(root / folder / f"{i}.png")
    return root


def write_zoo(root: Path, n: int = 48) -> Path:
    """The embedded images as files, in class folders whose sorted order is that of the classes."""
    images = catis.zoo.dataset("clean", n=n)
    for i, (pixels, label) in enumerate(images):
        folder = root / f"{label:02d}-{images.classes[label]}"
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(folder / f"{i:04d}.png")
    return root


def break_images(root: Path, folder: str, elsewhere: Path) -> list[str]:
    """Add images of every broken kind to a class folder; returns their names."""
    whole = next((root / folder).glob("*.png")).read_bytes()
    elsewhere.mkdir(parents=True, exist_ok=True)
    (elsewhere / "secret.png").write_bytes(whole)
    here = root / folder
    (here / "cut.png").write_bytes(whole[: len(whole) // 2])
    (here / "empty.jpg").touch()
    (here / "text.jpeg").write_text("not an image")
    Image.fromarray(np.zeros((300, 300, 3), np.uint8)).save(here / "bomb.png")
    os.symlink(elsewhere / "secret.png", here / "out.png")
    os.symlink(here / "nowhere", here / "loose.png")
    return sorted(f"{folder}/{name}" for name in ("cut.png", "empty.jpg", "text.jpeg", "bomb.png", "out.png"))
