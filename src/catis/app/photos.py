"""Images of the page: what a user drops, refused if it is too large or no image, and examples to try."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image, ImageOps, UnidentifiedImageError

from catis.data.images import ImageFolder
from catis.data.preprocessing import Pixels, Preprocessing
from catis.zoo import dataset

MOST_BYTES = 20 * 2**20
MOST_PIXELS = 50_000_000
"""Of one image; a phone's photo has 12 to 50 million."""
MOST_EXAMPLES = 64


@dataclass(frozen=True)
class Photo:
    """An image file of one user, and its pixels by the preprocessing that asked for them."""

    path: Path
    prepared: dict[Preprocessing, Pixels] = field(default_factory=dict, compare=False)

    def pixels(self, preprocessing: Preprocessing) -> Pixels:
        """(H, W, 3) bytes as a model wants them, turned as the camera says; errors are sentences for the user."""
        if preprocessing not in self.prepared:
            self.prepared[preprocessing] = _read(self.path, preprocessing)
        return self.prepared[preprocessing]


def _read(path: Path, preprocessing: Preprocessing) -> Pixels:
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise ValueError(f"This file has {size / 2**20:.0f} MB; at most {MOST_BYTES / 2**20:.0f} are taken.")
    try:
        with Image.open(path) as image:
            if image.width * image.height > MOST_PIXELS:
                most = f"{MOST_PIXELS / 1e6:.0f} million"
                raise ValueError(f"This image has {image.width} x {image.height} pixels; at most {most} are taken.")
            image.draft("RGB", (4 * preprocessing.size[1], 4 * preprocessing.size[0]))  # a large JPEG, read smaller
            return preprocessing.pixels(ImageOps.exif_transpose(image))
    except (UnidentifiedImageError, Image.DecompressionBombError, OSError, SyntaxError, EOFError) as error:
        raise ValueError("This file cannot be read as an image: take a JPEG, PNG or WebP file.") from error


def find_examples(folder: Path | None, into: Path) -> list[Path]:
    """At most 64 images of a folder, spread evenly; without one, images of the zoo's test set, drawn into `into`."""
    if folder is not None:
        return [folder / name for name in ImageFolder(folder, limit=MOST_EXAMPLES).names]
    data = dataset("clean", split="test", n=MOST_EXAMPLES)
    files = []
    for number in range(len(data)):
        pixels, label = data[number]
        files.append(into / f"{data.classes[label]}-{number}.png")
        Image.fromarray(pixels).save(files[-1])
    return files
