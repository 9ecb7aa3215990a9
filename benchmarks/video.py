"""How long it takes to read a clip: generated MPEG-4 clips in AVI, 320 x 240, of 90 to 190 frames, as UCF-101 has them.

    python benchmarks/video.py                    # writes results/video-reading.csv

In seconds of processor time per clip, so other work on the machine hardly matters.
"""

import argparse
import csv
import tempfile
import time
from pathlib import Path

import av
import numpy as np

from catis.data.preprocessing import Preprocessing
from catis.data.video import ClipFolder
from catis.data.video_lists import folder_clips
from catis.data.video_sampling import ClipSampling

HEIGHT, WIDTH = 240, 320
VIEWS = {"1": ClipSampling(), "5 x 3": ClipSampling(segments=5, crops=3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clips", type=int, default=22)
    parser.add_argument("--out", type=Path, default=Path("results/video-reading.csv"))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for index, frames in enumerate(np.linspace(90, 190, given.clips).astype(int)):
            draw(Path(folder) / "clips" / "class" / f"{index:02}.avi", frames, seed=index)
        rows = [(views, given.clips, seconds(Path(folder) / "clips", how)) for views, how in VIEWS.items()]
    with given.out.open("w", newline="") as file:
        file.write("# command: python benchmarks/video.py\n")
        csv.writer(file).writerows([("views", "clips", "seconds_per_clip"), *rows])
    for views, clips, each in rows:
        print(f"{views} views: {each:.4f} s of processor time per clip, {clips} clips")


def draw(path: Path, frames: int, seed: int) -> None:
    """A bright bar that moves over a noisy ground: neither still nor without structure."""
    path.parent.mkdir(parents=True, exist_ok=True)
    ground = np.random.default_rng(seed).integers(0, 200, (HEIGHT // 8, WIDTH // 8, 3), dtype=np.uint8)
    still = np.kron(ground, np.ones((8, 8, 1), np.uint8))
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=25)
        stream.height, stream.width, stream.pix_fmt, stream.bit_rate = HEIGHT, WIDTH, "yuv420p", 500_000
        for index in range(frames):
            picture = still.copy()
            picture[:, (3 * index) % (WIDTH - 16) :][:, :16] = 255
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode())


def seconds(folder: Path, sampling: ClipSampling) -> float:
    clips = ClipFolder(folder_clips(folder), Preprocessing(size=(224, 224)), sampling)
    start = time.process_time()
    for index in range(len(clips)):
        views = clips.read(index)
        assert isinstance(views, np.ndarray), views
    return (time.process_time() - start) / len(clips)


if __name__ == "__main__":
    main()
