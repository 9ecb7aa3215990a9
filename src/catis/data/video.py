"""A folder of video clips as a model's input: what is read, how it is prepared, and what is refused and why."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image
from timm.data.transforms import str_to_pil_interp

from catis.data.images import BrokenImage
from catis.data.preprocessing import Pixels, Preprocessing
from catis.data.video_decode import BrokenClipError, import_av, read_frames
from catis.data.video_lists import ClipList
from catis.data.video_sampling import ClipSampling


class ClipFolder:
    """Clips of a list, in its order.

    Args:
        clips: Which ones, from `ucf101_clips` or `folder_clips`.
        preprocessing: How to prepare their frames: shorter side to size / crop_pct, then crops of size.
        sampling: Which frames and crops.
        limit: Take only this many, spread evenly over the list.

    Example:
        >>> import tempfile
        >>> from catis.data.video_lists import ClipList
        >>> root = Path(tempfile.mkdtemp())
        >>> (root / "a.avi").write_bytes(b"")
        0
        >>> ClipFolder(ClipList(root, ("a.avi",), (0,), ("a",)), Preprocessing()).read(0)
        BrokenImage(name='a.avi', reason='InvalidDataError: Invalid data found when processing input')
    """

    def __init__(
        self,
        clips: ClipList,
        preprocessing: Preprocessing,
        sampling: ClipSampling | None = None,
        limit: int | None = None,
    ) -> None:
        import_av()
        if limit is not None and limit < 1:
            raise ValueError(f"limit={limit}: expected at least one clip")
        if preprocessing.size[0] != preprocessing.size[1]:
            raise ValueError(f"size={preprocessing.size}: clips are cropped to squares")
        self.root, self.classes = clips.root, clips.classes
        self.preprocessing, self.sampling = preprocessing, sampling or ClipSampling()
        count = len(clips.names)
        places = range(count) if limit is None or limit >= count else [i * count // limit for i in range(limit)]
        self.names = [clips.names[place] for place in places]
        self.labels = [clips.labels[place] for place in places]

    def __len__(self) -> int:
        return len(self.names)

    def name(self, index: int) -> str:
        """Class folder and file."""
        return self.names[index]

    def read(self, index: int) -> Pixels | BrokenImage:
        """Views of one clip, (V, T, H, W, 3); anything wrong with the file comes back as a BrokenImage."""
        name = self.names[index]
        path = self.root / name
        if not path.resolve().is_relative_to(self.root.resolve()):
            return BrokenImage(name, "outside the folder, or a symlink out of it, not followed: copy it")
        return read_clip(path, self.preprocessing, self.sampling, name)


def read_clip(path: Path, preprocessing: Preprocessing, sampling: ClipSampling, name: str = "") -> Pixels | BrokenImage:
    """Views of one video file, (V, T, H, W, 3), segment by segment and crop by crop in each."""
    side = preprocessing.size[0]
    edge = int(side / preprocessing.crop_pct)
    method = str_to_pil_interp(preprocessing.interpolation)  # type: ignore[no-untyped-call]

    def crops(image: Image.Image) -> Pixels:
        pixels = np.asarray(_resize(image.convert("RGB"), edge, method))
        corners = sampling.corners(pixels.shape[0], pixels.shape[1], side)
        return np.stack([pixels[top : top + side, left : left + side] for top, left in corners])

    try:
        frames = read_frames(path, lambda total: sampling.indices(total).reshape(-1).tolist(), crops)
    except BrokenClipError as error:
        return BrokenImage(name or str(path), str(error))
    stacked = np.stack(frames).reshape(sampling.segments, sampling.frames, sampling.crops, side, side, 3)
    return stacked.swapaxes(1, 2).reshape(sampling.views, sampling.frames, side, side, 3)


def _resize(image: Image.Image, edge: int, method: Image.Resampling) -> Image.Image:
    """Shorter side to `edge`, the longer in proportion, rounded down."""
    short = min(image.size)
    width, height = (max(edge, length * edge // short) for length in image.size)
    return image.resize((width, height), method)
