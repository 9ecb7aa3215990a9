"""What the name of a data set of clips says: which clips, and how many views of each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from catis.data.video_lists import ClipList, folder_clips, ucf101_clips
from catis.data.video_sampling import ClipSampling

_NAME = re.compile(r"(ucf101(?:-split([123]))?|clips)(?:-([1-9]\d*)x([1-9]\d*))?")


@dataclass(frozen=True)
class ClipData:
    """A data set of clips: `ucf101` (the first test list), `ucf101-split2`, or `clips` for any folder of class folders.

    Either may end in the number of segments and crops, as in `ucf101-5x3`.

    Attributes:
        split: Of UCF-101; None for a plain folder.
        segments: Stretches of each clip.
        crops: Crops of each stretch.

    Example:
        >>> ClipData.parse("ucf101-split2-5x3")
        ClipData(split=2, segments=5, crops=3)
        >>> ClipData.parse("imagenet") is None
        True
    """

    split: int | None = 1
    segments: int = 1
    crops: int = 1

    @classmethod
    def parse(cls, name: str) -> ClipData | None:
        """What a name means; None if it does not mean clips."""
        match = _NAME.fullmatch(name)
        if match is None:
            return None
        kind, split, segments, crops = match.groups()
        return cls(None if kind == "clips" else int(split or 1), int(segments or 1), int(crops or 1))

    def clips(self, root: str | Path) -> ClipList:
        """The clips below a folder."""
        return folder_clips(root) if self.split is None else ucf101_clips(root, self.split)

    def sampling(self, frames: int) -> ClipSampling:
        """The views, for a model that takes so many frames."""
        return ClipSampling(frames, segments=self.segments, crops=self.crops)
