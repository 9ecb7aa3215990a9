"""Small video files with known frames, encoded with PyAV."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np


def moving(total: int, colour: tuple[int, int, int], size: tuple[int, int] = (48, 64), seed: int = 0) -> np.ndarray:
    """(total, H, W, 3): a bar of one colour that moves over noise, over a ground that says which frame it is."""
    height, width = size
    frames = np.random.default_rng(seed).integers(0, 20, (total, height, width, 3), dtype=np.uint8)
    for index, frame in enumerate(frames):
        frame[: height // 2] += np.uint8(2 * index % 200)
        at = (index * 2 + seed) % (width - 8)
        frame[height // 2 :, at : at + 8] = colour
    return frames


def encode(path: Path, frames: np.ndarray, codec: str = "mpeg4", **options: str) -> Path:
    """Write a video; the container is that of the file's ending."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w", options={"movflags": "faststart"} if path.suffix == ".mp4" else {}) as container:
        stream = container.add_stream(codec, rate=25, options=options)
        stream.height, stream.width = frames.shape[1:3]
        stream.pix_fmt, stream.bit_rate = "yuv420p", 2_000_000
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode())
    return path


def counting(total: int, size: tuple[int, int] = (48, 64)) -> np.ndarray:
    """(total, H, W, 3): frame i is grey of level 4 i + 8, so that a decoded frame says its own number."""
    levels = (4 * np.arange(total) + 8).astype(np.uint8)
    return np.broadcast_to(levels[:, None, None, None], (total, *size, 3)).copy()


def number(pixels: np.ndarray) -> int:
    """Which frame of `counting` it is."""
    return round((float(pixels.mean()) - 8) / 4)


def cut(path: Path, share: float) -> Path:
    """Keep the first part of a file."""
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    return path


def turn(path: Path) -> Path:
    """Mark an MP4 as recorded sideways: a player turns it a quarter, clockwise."""
    data = bytearray(path.read_bytes())
    at = data.index(b"tkhd") + 4 + 40
    quarter = [0, 1 << 16, 0, (-1 << 16) & 0xFFFFFFFF, 0, 0, 0, 0, 1 << 30]
    data[at : at + 36] = b"".join(value.to_bytes(4, "big") for value in quarter)
    path.write_bytes(bytes(data))
    return path
