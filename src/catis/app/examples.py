"""Images to try: those of a folder, or drawn ones that come with catis."""

from __future__ import annotations

from pathlib import Path

from PIL import Image

from catis.data.images import ImageFolder
from catis.zoo import dataset

MOST = 64


def find_examples(folder: Path | None, into: Path) -> list[Path]:
    """At most 64 images, spread evenly.

    Args:
        folder: Where they are; None for images of the zoo's test set.
        into: Where drawn ones are written.

    Raises:
        NoImagesError: The folder has no images.
    """
    if folder is not None:
        return [folder / name for name in ImageFolder(folder, limit=MOST).names]
    data = dataset("clean", split="test", n=MOST)
    files = []
    for number in range(len(data)):
        pixels, label = data[number]
        files.append(into / f"{data.classes[label]}-{number}.png")
        Image.fromarray(pixels).save(files[-1])
    return files
