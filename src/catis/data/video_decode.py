"""Frames of a video file by number, decoded with PyAV: exact, in order, and only as far as they are needed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, TypeVar

from PIL import Image

from catis.errors import CatisError, require

FORMATS = "avi,mov,mp4,matroska,webm,mpeg,mpegts,mpegvideo,flv,asf,ogg,gif"
"""Containers that are opened. No play lists and no lists of images: those would make FFmpeg read other files."""
COMPLETE = 0.9
"""Share of its announced length that a clip must have: frames may be dropped at the end, but a cut file is broken."""

PreparedT = TypeVar("PreparedT")


class BrokenClipError(CatisError):
    """A file that does not hold the video it should; the message says why."""


def import_av() -> Any:
    """PyAV, or how to get it."""
    require("reading videos", "video", "av")
    import av

    return av


def count_frames(path: Path) -> int:
    """Frames that a file holds, from its packets alone; nothing is decoded.

    Raises:
        BrokenClipError: No video, no frame, or the file ends long before the length it announces.
    """
    av = import_av()
    try:
        with _open(path) as container:
            return _count(container, _stream(container))
    except (av.FFmpegError, OSError) as error:
        raise BrokenClipError(_reason(error)) from error


def read_frames(
    path: Path, choose: Callable[[int], Sequence[int]], prepare: Callable[[Image.Image], PreparedT]
) -> list[PreparedT]:
    """Chosen frames, in the order chosen, from the beginning of the file up to the last of them.

    There is no seeking: clips are short, and in an AVI of 2012 only counting finds the frame that is meant.

    Args:
        choose: From the number of frames to the numbers of those wanted; one may be wanted several times.
        prepare: What to keep of a frame; called once for each.

    Raises:
        BrokenClipError: The file is not a video, or damaged where it was read.
    """
    av = import_av()
    total = count_frames(path)
    try:
        while True:
            wanted = choose(total)
            frames, seen = _decode(path, set(wanted), prepare)
            if frames.keys() >= set(wanted):
                return [frames[index] for index in wanted]
            if not seen:
                raise BrokenClipError("no frame can be decoded")
            # Some packets held no picture of their own. There are fewer than before now, so this ends.
            total = seen
    except (av.FFmpegError, OSError) as error:
        raise BrokenClipError(_reason(error)) from error


def _decode(
    path: Path, wanted: Collection[int], prepare: Callable[[Image.Image], PreparedT]
) -> tuple[dict[int, PreparedT], int]:
    frames: dict[int, PreparedT] = {}
    seen = 0
    with _open(path) as container:
        for index, frame in enumerate(container.decode(_stream(container))):
            if index in wanted:
                if frame.is_corrupt:
                    raise BrokenClipError(f"frame {index} is damaged")
                frames[index] = prepare(_upright(frame))
            seen = index + 1
            if len(frames) == len(wanted):
                break
    return frames, seen


def _open(path: Path) -> Any:
    # "file:" keeps a name such as "concat:a" from being a protocol; old AVI files have titles in any encoding.
    allowed = {"protocol_whitelist": "file", "format_whitelist": FORMATS}
    return import_av().open(f"file:{path}", options=allowed, metadata_errors="replace")


def _stream(container: Any) -> Any:
    if not container.streams.video:
        raise BrokenClipError("no video stream in it")
    stream = container.streams.video[0]
    width, height = stream.codec_context.width, stream.codec_context.height
    if Image.MAX_IMAGE_PIXELS is not None and width * height > Image.MAX_IMAGE_PIXELS:
        raise BrokenClipError(f"refused: frames of {width} x {height} pixels, maybe a decompression bomb")
    stream.codec_context.thread_count = 1  # clips are read in parallel already
    return stream


def _count(container: Any, stream: Any) -> int:
    total, start, end = 0, None, 0.0
    for packet in container.demux(stream):
        if packet.size == 0:  # the signal that the file is over
            continue
        if packet.is_corrupt:
            raise BrokenClipError(f"truncated or damaged: packet {total} is not whole")
        if packet.pts is not None:
            at = float(packet.pts * stream.time_base)
            start = at if start is None else min(start, at)
            end = max(end, at + float((packet.duration or 0) * stream.time_base))
        total += not packet.is_discard
    if not total:
        raise BrokenClipError("no frame in it")
    announced = _announced(container, stream)
    if start is not None and announced and end - start < COMPLETE * announced:
        raise BrokenClipError(f"truncated: {end - start:.2f} s of {announced:.2f} s")
    return total


def _announced(container: Any, stream: Any) -> float:
    """Seconds of video according to the file's header; 0 if it does not say."""
    if stream.frames and stream.average_rate:
        return float(stream.frames / stream.average_rate)
    # The container's length is that of its longest stream.
    alone = len(container.streams) == 1 and container.duration
    return container.duration / import_av().time_base if alone else 0.0


def _upright(frame: Any) -> Image.Image:
    """The picture as a player shows it: telephones record sideways and say so."""
    image: Image.Image = frame.to_image()
    return image.rotate(frame.rotation, expand=True) if frame.rotation else image


def _reason(error: Any) -> str:
    return f"{type(error).__name__}: {error.strerror}"
