"""Clips: the frames that were asked for, prepared as the model wants them, and what is refused."""

import av
import numpy as np
import pytest
from PIL import Image

from catis.data.images import BrokenImage
from catis.data.preprocessing import Preprocessing
from catis.data.video import ClipFolder, read_clip
from catis.data.video_decode import count_frames, read_frames
from catis.data.video_lists import ClipData, ClipList, folder_clips
from catis.data.video_sampling import ClipSampling
from catis.errors import MissingExtraError

from .clips import counting, cut, encode, moving, number, turn

SMALL = Preprocessing((32, 32), 1.0, interpolation="bilinear")
CODECS = [
    ("a.avi", "mpeg4", {}),
    ("b.avi", "mpeg4", {"bf": "2"}),
    ("c.mp4", "libx264", {"crf": "10"}),
    ("d.mkv", "libx264", {"crf": "10"}),
    ("e.webm", "libvpx", {"crf": "4", "b": "2M"}),
    ("f.mpg", "mpeg2video", {}),
]


@pytest.mark.parametrize(("name", "codec", "options"), CODECS, ids=[name for name, *_ in CODECS])
def test_the_very_frames_that_were_asked_for(tmp_path, name, codec, options):
    path = encode(tmp_path / name, counting(60), codec, **options)
    assert count_frames(path) == 60
    wanted = [7, 50, 20, 20, 0]
    assert read_frames(path, lambda total: wanted, number_of) == wanted
    assert read_frames(path, lambda total: [total - 1], number_of) == [59]


def number_of(image):
    return number(np.asarray(image))


def test_reading_stops_at_the_last_frame_needed_and_keeps_only_those_needed(tmp_path):
    path = encode(tmp_path / "a.avi", counting(60))
    kept = []
    read_frames(path, lambda total: [3, 5, 5], lambda image: kept.append(number_of(image)))
    assert kept == [3, 5]
    data = bytearray(path.read_bytes())
    late = data.index(b"00dc", int(len(data) * 0.7)) + 8  # a chunk of a later frame
    data[late : late + 40] = bytes(40)
    path.write_bytes(bytes(data))
    assert read_frames(path, lambda total: [3, 5], number_of) == [3, 5]


def test_packets_without_a_picture_are_found_out(tmp_path, monkeypatch):
    path = encode(tmp_path / "a.avi", counting(20))
    monkeypatch.setattr("catis.data.video_decode.count_frames", lambda path: 30)
    asked = []
    found = read_frames(path, lambda total: asked.append(total) or [total - 1], number_of)
    assert (asked, found) == ([30, 20], [19])


def test_a_clip_recorded_sideways_is_turned(tmp_path):
    frames = np.zeros((4, 48, 64, 3), np.uint8)
    frames[:, :, :32] = 255  # white on the left, so on top after a quarter turn clockwise
    path = turn(encode(tmp_path / "a.mp4", frames, "libx264"))
    [image] = read_frames(path, lambda total: [0], np.asarray)
    assert image.shape == (64, 48, 3)
    assert image[:28].mean() > 240
    assert image[36:].mean() < 15


def test_views_are_segments_by_crops_of_the_frames_sampled(tmp_path):
    sampling = ClipSampling(frames=4, stride=2, segments=2, crops=3)
    path = encode(tmp_path / "a.avi", counting(20, (48, 96)))
    views = read_clip(path, SMALL, sampling)
    assert views.shape == (6, 4, 32, 32, 3)
    assert views.dtype == np.uint8
    numbers = [[number(frame) for frame in view] for view in views]
    assert numbers == [[0, 2, 4, 6]] * 3 + [[12, 14, 16, 18]] * 3


def test_frames_are_resized_and_cropped_as_pillow_does(tmp_path):
    path = encode(tmp_path / "a.avi", moving(8, (250, 10, 10), (48, 80)))
    [view] = read_clip(path, SMALL, ClipSampling(frames=2, stride=4))
    with av.open(str(path)) as container:
        frames = [frame.to_image() for frame in container.decode(video=0)]
    for ours, frame in zip(view, [frames[0], frames[4]], strict=True):
        resized = np.asarray(frame.resize((53, 32), Image.Resampling.BILINEAR))
        assert np.array_equal(ours, resized[:, 10:42])
    crops = read_clip(path, SMALL, ClipSampling(frames=1, crops=3))
    resized = np.asarray(frames[0].resize((53, 32), Image.Resampling.BILINEAR))
    assert all(np.array_equal(crops[i, 0], resized[:, at : at + 32]) for i, at in enumerate((0, 10, 21)))


def test_a_clip_smaller_than_the_crop_is_enlarged(tmp_path):
    path = encode(tmp_path / "a.avi", counting(3, (16, 16)))
    assert read_clip(path, SMALL, ClipSampling()).shape == (1, 16, 32, 32, 3)


def broken_clips(root):
    """Every kind of broken file, and what its reason must say."""
    whole = moving(60, (250, 10, 10))
    outside = encode(root.parent / "outside.avi", counting(4))
    folder = root / "bad"
    folder.mkdir(parents=True)
    (folder / "empty.avi").touch()
    (folder / "text.avi").write_text("not a video\n" * 200)
    (folder / "zeros.mp4").write_bytes(bytes(5000))
    Image.new("RGB", (64, 64)).save(folder / "photo.png")
    (folder / "photo.png").rename(folder / "photo.avi")
    (folder / "list.avi").write_text("ffconcat version 1.0\nfile whole.avi\n")
    (folder / "playlist.mp4").write_text("#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\nwhole.avi\n#EXT-X-ENDLIST\n")
    (folder / "link.avi").symlink_to(outside)
    (folder / "dangling.avi").symlink_to(folder / "gone.avi")
    cut(encode(folder / "cut-header.avi", whole), 0.02)
    cut(encode(folder / "cut.avi", whole), 0.5)
    cut(encode(folder / "cut-indexed.mp4", whole, "libx264"), 0.6)
    cut(encode(folder / "cut.mkv", whole, "libx264"), 0.6)
    with av.open(str(folder / "sound.mp4"), "w") as container:
        stream = container.add_stream("aac", rate=8000)
        sound = av.AudioFrame.from_ndarray(np.zeros((1, 4096), np.float32), format="fltp", layout="mono")
        sound.rate = 8000
        container.mux(stream.encode(sound))
        container.mux(stream.encode())
    with av.open(str(folder / "no-frames.avi"), "w") as container:
        stream = container.add_stream("mpeg4", rate=25)
        stream.height, stream.width, stream.pix_fmt = 48, 64, "yuv420p"
        container.start_encoding()
    return {
        "empty.avi": "InvalidData", "text.avi": "InvalidData", "zeros.mp4": "InvalidData", "photo.avi": "Argument",
        "list.avi": "Argument", "playlist.mp4": "InvalidData", "link.avi": "symlink", "dangling.avi": "No such file",
        "cut-header.avi": "", "cut.avi": "truncated", "cut-indexed.mp4": "truncated", "cut.mkv": "truncated",
        "sound.mp4": "no video stream", "no-frames.avi": "no frame",
    }  # fmt: skip


def test_every_broken_clip_is_named_with_its_reason(tmp_path):
    expected = broken_clips(tmp_path / "root")
    encode(tmp_path / "root" / "bad" / "whole.avi", moving(60, (250, 10, 10)))
    folder = ClipFolder(folder_clips(tmp_path / "root"), SMALL)
    found = {folder.name(i).removeprefix("bad/"): folder.read(i) for i in range(len(folder))}
    assert isinstance(found.pop("whole.avi"), np.ndarray)
    assert found.keys() == expected.keys()
    for name, why in expected.items():
        assert isinstance(found[name], BrokenImage), name
        assert found[name].name == f"bad/{name}"
        assert why in found[name].reason, found[name]
        assert str(tmp_path) not in found[name].reason


def test_a_clip_on_the_list_that_is_not_there(tmp_path):
    clips = ClipList(tmp_path, ("a/gone.avi", "../outside.avi"), (0, 0), ("a",))
    encode(tmp_path.parent / "outside.avi", counting(2))
    assert "No such file" in ClipFolder(clips, SMALL).read(0).reason
    assert "outside the folder" in ClipFolder(clips, SMALL).read(1).reason


def test_a_frame_damaged_where_it_is_read(tmp_path):
    path = encode(tmp_path / "a.avi", moving(30, (250, 10, 10)))
    data = bytearray(path.read_bytes())
    at = data.index(b"00dc", len(data) // 2) + 8
    data[at : at + 60] = bytes(60)
    path.write_bytes(bytes(data))
    assert isinstance(read_clip(path, SMALL, ClipSampling(frames=30, stride=1)), BrokenImage)


def test_a_bomb_is_refused(tmp_path, monkeypatch):
    path = encode(tmp_path / "a.avi", counting(2))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    assert "64 x 48 pixels" in read_clip(path, SMALL, ClipSampling()).reason


def test_limit_is_spread_evenly(tmp_path):
    for i in range(6):
        encode(tmp_path / f"class{i // 3}" / f"{i}.avi", counting(2))
    clips = folder_clips(tmp_path)
    assert ClipFolder(clips, SMALL, limit=2).names == ["class0/0.avi", "class1/3.avi"]
    assert ClipFolder(clips, SMALL, limit=2).labels == [0, 1]
    assert len(ClipFolder(clips, SMALL, limit=99)) == 6
    with pytest.raises(ValueError, match="at least one clip"):
        ClipFolder(clips, SMALL, limit=0)
    with pytest.raises(ValueError, match="squares"):
        ClipFolder(clips, Preprocessing((32, 48)))


def test_without_pyav_the_pip_command_is_named(tmp_path, monkeypatch):
    encode(tmp_path / "a" / "a.avi", counting(2))
    monkeypatch.setattr("catis.errors.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'catis\[video\]'"):
        ClipFolder(folder_clips(tmp_path), SMALL)


@pytest.mark.parametrize("name", ["imagenet", "ucf101-split4", "ucf101-0x3", "clips-split1", "ucf101-5", "my-clips"])
def test_other_names_do_not_mean_clips(name):
    assert ClipData.parse(name) is None


def test_names_say_the_split_and_the_views():
    assert ClipData.parse("ucf101") == ClipData(1, 1, 1)
    assert ClipData.parse("ucf101-split3-10x1") == ClipData(3, 10, 1)
    assert ClipData.parse("clips-5x3") == ClipData(None, 5, 3)
    assert ClipData.parse("clips-5x3").sampling(8) == ClipSampling(8, 4, 5, 3)
