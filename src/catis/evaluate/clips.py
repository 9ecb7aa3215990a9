"""Video clips as a data set, and one prediction out of several views of a clip."""

from __future__ import annotations

import math
from dataclasses import asdict

import PIL
from torch import Tensor

from catis.data.preprocessing import Preprocessing
from catis.data.video import ClipFolder
from catis.data.video_decode import import_av
from catis.data.video_lists import ClipData
from catis.evaluate.sources import OpenData, file_facts, open_data
from catis.runs.spec import DataSpec


def open_clips(spec: DataSpec, preprocessing: Preprocessing) -> OpenData:
    """Find the clips of a data set; none is read yet.

    Raises:
        NoImagesError: There are none, or not the official lists.
        ValueError: The model takes images, the data set is none of clips, or a corruption was asked for.
    """
    named = ClipData.parse(spec.name)
    if named is None:
        raise ValueError(f"data {spec.name!r}: the model takes clips; pass ucf101=DIR, or clips=DIR for class folders")
    if preprocessing.frames is None:
        raise ValueError(f"data {spec.name!r} is a set of clips, and the model takes images; use a video model")
    if spec.root is None:
        raise ValueError(f"data {spec.name!r} has no folder: expected {spec.name}=DIR")
    if spec.corruption is not None:
        raise ValueError(f"data {spec.title!r}: corruptions are made for images, not for clips")
    sampling = named.sampling(preprocessing.frames)
    source = ClipFolder(named.clips(spec.root), preprocessing, sampling, spec.limit)
    sizes, times = file_facts(source.root, source.names)
    shape = (sampling.views, sampling.frames, *preprocessing.size, 3)
    stamps = [str(source.root.resolve()), PIL.__version__, import_av().__version__, times]
    folders = [name.split("/")[0] for name in source.names]
    return OpenData(source, folders, source.classes, sizes, stamps, None, shape, made=asdict(sampling))


def count_items(spec: DataSpec) -> int:
    """Images or clips in a data set; none is read.

    Example:
        >>> count_items(DataSpec("zoo-clean", limit=24))
        24
    """
    if ClipData.parse(spec.name) is None:
        return len(open_data(spec, Preprocessing()).source)
    return len(open_clips(spec, Preprocessing(frames=1)).source)


def mean_views(logits: Tensor, views: int) -> Tensor:
    """From (B * views, classes) to (B, classes): the softmax is the mean over the views, as in VideoMAE's test.

    Example:
        >>> import torch
        >>> both = mean_views(torch.tensor([[0.0, 0.0], [1.0, -1.0]]), views=2)
        >>> [round(share, 4) for share in both.softmax(1)[0].tolist()]  # of 0.5 and 0.8808
        [0.6904, 0.3096]
    """
    shares = logits.float().log_softmax(1).reshape(-1, views, logits.shape[1])
    return shares.logsumexp(1) - math.log(views)
