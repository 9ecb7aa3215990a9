"""Frame numbers and crops, against values worked out by hand from VideoMAE's rule."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catis.data.video_sampling import ClipSampling


def test_the_middle_of_a_clip_of_ucf101():
    # 0, 4, ... 184: 47 frames, 31 more than needed; the middle stretch begins at the 15th, frame 60.
    assert ClipSampling().indices(186).tolist() == [list(range(60, 121, 4))]


def test_five_segments_from_the_first_to_the_last():
    # 31 to spread over four steps of 7.75: 0, 7, 15, 23, 31, which are frames 0, 28, 60, 92, 124.
    found = ClipSampling(segments=5).indices(186)
    assert found[:, 0].tolist() == [0, 28, 60, 92, 124]
    assert found[-1, -1] == 184
    assert (np.diff(found) == 4).all()


@pytest.mark.parametrize("total", [61, 64])
def test_a_clip_that_fits_exactly(total):
    assert ClipSampling(segments=5).indices(total).tolist() == [list(range(0, 61, 4))] * 5


def test_a_short_clip_repeats_its_last_sampled_frame():
    assert ClipSampling().indices(30).tolist() == [[0, 4, 8, 12, 16, 20, 24, 28] + [28] * 8]
    assert ClipSampling(segments=2).indices(1).tolist() == [[0] * 16] * 2
    with pytest.raises(ValueError, match="0 frames"):
        ClipSampling().indices(0)


def test_crops_lie_along_the_longer_side():
    wide, tall = (224, 298), (298, 224)
    assert ClipSampling().corners(*wide, 224) == [(0, 37)]
    assert ClipSampling(crops=3).corners(*wide, 224) == [(0, 0), (0, 37), (0, 74)]
    assert ClipSampling(crops=3).corners(*tall, 224) == [(0, 0), (37, 0), (74, 0)]
    assert ClipSampling(crops=3).corners(256, 341, 224) == [(16, 0), (16, 58), (16, 117)]
    assert ClipSampling(crops=3).corners(32, 32, 32) == [(0, 0)] * 3


@given(st.integers(1, 400), st.integers(1, 32), st.integers(1, 8), st.integers(1, 6))
def test_every_frame_exists_and_they_are_in_order(total, frames, stride, segments):
    found = ClipSampling(frames, stride, segments).indices(total)
    assert found.shape == (segments, frames)
    assert (found >= 0).all()
    assert (found < total).all()
    assert (np.diff(found) >= 0).all()
    assert (np.diff(found[:, 0]) >= 0).all()


@pytest.mark.parametrize("bad", [{"frames": 0}, {"stride": 0}, {"segments": 0}, {"crops": -1}])
def test_bad_numbers_are_refused(bad):
    with pytest.raises(ValueError, match="at least 1 each"):
        ClipSampling(**bad)
