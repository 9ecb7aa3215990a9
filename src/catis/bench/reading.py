"""How long a folder's images take to read and prepare, so that a data-bound setting is told as one."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from catis import hosts
from catis.bench.timing import least_seconds
from catis.data.batches import batches
from catis.data.images import ImageFolder, NoImagesError


def seconds_per_image(root: str | Path, model: nn.Module, workers: int, limit: int = 64, repeats: int = 3) -> float:
    """Wall-clock seconds to decode, resize, crop and normalise one image, with some threads at work.

    Args:
        root: A folder of images.
        model: Whose preprocessing is used.
        workers: Threads that read.
        limit: Images to read, spread over the folder.
        repeats: Passes over them; the shortest counts. Files are in the page cache by then: a slow disk is not seen.

    Raises:
        NoImagesError: None of them could be read.

    Example:
        >>> import tempfile, timm
        >>> from PIL import Image
        >>> folder = tempfile.mkdtemp()
        >>> Image.new("RGB", (300, 300)).save(f"{folder}/one.png")
        >>> seconds_per_image(folder, timm.create_model("test_vit"), workers=1) > 0
        True
    """
    preprocessing = hosts.find(model).preprocessing()
    source = ImageFolder(root, preprocessing, limit)

    def read() -> int:
        count = 0
        for batch in batches(source, 2 * workers, workers):
            if batch.pixels:
                preprocessing.normalise(batch.pixels)
            count += len(batch.pixels)
        return count

    count = read()
    if count == 0:
        raise NoImagesError(f"none of the {len(source)} images tried in {root} could be read")
    return least_seconds(read, repeats) / count
