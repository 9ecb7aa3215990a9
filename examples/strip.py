"""Make the README's moving picture from real output: four test images of the zoo, block by block, under CATIS.

    python examples/strip.py docs/img/strip.gif

The images are one of every sixth class, not picked by hand; the captions are what the model answers.
"""

from __future__ import annotations

import sys
from pathlib import Path

import catis
import catis.zoo
from catis.files import write_whole
from catis.pictures.canvas import in_grid
from catis.pictures.classes import describe_change, name_classes
from catis.pictures.drawing import Look
from catis.pictures.formats import as_gif

MODEL, R, CHOSEN = "tiny-12", 9, (0, 6, 12, 18)


def main(path: Path) -> None:
    """Write the GIF."""
    model = catis.zoo.load(MODEL)
    images, _ = next(catis.zoo.dataset("clean", split="test", n=24).batches(24))
    images = images[list(CHOSEN)]
    before, name = model(images).argmax(-1), name_classes(model)
    seen = catis.trace(catis.apply(model, "catis", r=R), images)
    after = seen.output.argmax(-1)
    frames = []
    for at, (was, now) in enumerate(zip(before.tolist(), after.tolist(), strict=True)):
        look = Look(heat_maps=False, caption=describe_change(name(was), name(now)), legend=at == len(CHOSEN) - 2)
        frames.append(seen.frames(at, look=look))
    write_whole(path, as_gif([in_grid(frame, 2) for frame in zip(*frames, strict=True)]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
