"""Which frames and which crops of a clip a video model sees, as VideoMAE's own test does it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class ClipSampling:
    """Dense sampling: every stride-th frame of the clip, and stretches of `frames` of these.

    The default is one view, the middle of the clip and of the picture. VideoMAE's published numbers on UCF-101 and
    Kinetics average 15: `ClipSampling(segments=5, crops=3)`.

    Attributes:
        frames: Frames that the model takes.
        stride: Distance between them in the clip.
        segments: Stretches per clip, from the first to the last that fit; a single one lies in the middle.
        crops: Squares along the longer side, from one end to the other; a single one lies in the middle.

    Example:
        >>> ClipSampling(frames=4, stride=4).indices(40).tolist()
        [[12, 16, 20, 24]]
        >>> ClipSampling(frames=4, stride=4, segments=2).indices(10).tolist()  # a short clip: its last one is repeated
        [[0, 4, 8, 8], [0, 4, 8, 8]]
    """

    frames: int = 16
    stride: int = 4
    segments: int = 1
    crops: int = 1

    def __post_init__(self) -> None:
        if min(self.frames, self.stride, self.segments, self.crops) < 1:
            raise ValueError(f"{self}: expected at least 1 each")

    @property
    def views(self) -> int:
        """Inputs that the model gets per clip."""
        return self.segments * self.crops

    def indices(self, total: int) -> NDArray[np.int64]:
        """(segments, frames) places in a clip of `total` frames; the last sampled one is repeated if they run out."""
        if total < 1:
            raise ValueError(f"a clip of {total} frames: nothing to sample")
        sampled = np.arange(0, total, self.stride)
        sampled = np.append(sampled, np.full(max(self.frames - len(sampled), 0), sampled[-1]))
        starts = _spread(len(sampled) - self.frames, self.segments)
        return np.stack([sampled[start : start + self.frames] for start in starts])

    def corners(self, height: int, width: int, side: int) -> list[tuple[int, int]]:
        """Top and left of each crop of `side` pixels.

        Example:
            >>> ClipSampling(crops=3).corners(224, 298, 224)
            [(0, 0), (0, 37), (0, 74)]
        """
        across = _spread(max(height, width) - side, self.crops)
        middle = (min(height, width) - side) // 2
        return [(at, middle) if height > width else (middle, at) for at in across]


def _spread(room: int, count: int) -> list[int]:
    """Starts from 0 to `room`, evenly, rounded down; the middle for a single one."""
    if count == 1:
        return [room // 2]
    return [place * room // (count - 1) for place in range(count)]
