"""Reading videos, and detecting cuts."""

from fractions import Fraction

import av
import numpy as np
import pytest
from footage import FIRST

from taskfree.paper.tv.video import CutDetector, VideoError, frame_count, frame_rate, frames

CUTS = [259, 317]
"""The first frames of shots in the clip, by eye."""


def moving_scene(count, seed=0, light=1.0):
    """Images of a scene that moves a little."""
    scene = np.random.default_rng(seed).integers(0, 255, (8, 12, 3)).repeat(12, 0).repeat(12, 1)
    return [(np.roll(scene, at, 1) * light).astype(np.uint8) for at in range(count)]


def test_the_cuts_of_a_film_are_detected(film):
    detector = CutDetector()
    assert [f.number + FIRST for f in frames(film) if detector.is_cut(f.image)] == CUTS


@pytest.mark.parametrize("light", [1.0, 0.5, 0.25])
def test_a_cut_is_detected_in_the_dark_and_a_change_of_light_is_no_cut(light):
    detector = CutDetector()
    scenes = moving_scene(10, 0, light) + moving_scene(10, 1, light)
    assert [at for at, image in enumerate(scenes) if detector.is_cut(image)] == [10]
    detector = CutDetector()
    lights = np.linspace(1, 0.5, 10) * light
    dimmed = [(moving_scene(1)[0] * one).astype(np.uint8) for one in lights]
    assert not any(detector.is_cut(image) for image in dimmed)


def test_frames_have_numbers_and_times(film):
    found = list(frames(film))
    assert [frame.number for frame in found] == list(range(len(found)))
    assert [frame.seconds for frame in found] == pytest.approx([n / 25 for n in range(len(found))])
    assert frame_count(film) == len(found)
    assert frame_rate(film) == 25


def test_a_video_with_longer_sound_or_uneven_frames_is_complete(tmp_path):
    with av.open(str(tmp_path / "sound.mkv"), "w") as out:
        video, audio = out.add_stream("libx264", rate=25), out.add_stream("aac", rate=8000)
        video.height, video.width, video.pix_fmt = 96, 144, "yuv420p"
        for image in moving_scene(50):
            out.mux(video.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        out.mux(video.encode(None))
        for at in range(32):
            frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), "fltp", "mono")
            frame.rate, frame.pts = 8000, 1024 * at
            out.mux(audio.encode(frame))
        out.mux(audio.encode(None))
    assert len(list(frames(tmp_path / "sound.mkv"))) == 50
    with av.open(str(tmp_path / "uneven.mkv"), "w") as out:
        video = out.add_stream("libx264", rate=25)
        video.height, video.width, video.pix_fmt = 96, 144, "yuv420p"
        for at, image in enumerate(moving_scene(50)):
            frame = av.VideoFrame.from_ndarray(image, format="rgb24")
            frame.pts, frame.time_base = (at if at < 25 else 25 + 6 * (at - 25)), Fraction(1, 25)
            out.mux(video.encode(frame))
        out.mux(video.encode(None))
    assert len(list(frames(tmp_path / "uneven.mkv"))) == 50


def test_a_video_without_images_is_refused(tmp_path):
    with av.open(str(tmp_path / "sound.mkv"), "w") as out:
        stream = out.add_stream("aac", rate=44100)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), "fltp", "mono")
        frame.rate = 44100
        out.mux(stream.encode(frame))
        out.mux(stream.encode(None))
    with pytest.raises(VideoError, match="contains no images"):
        list(frames(tmp_path / "sound.mkv"))


def test_a_missing_file_has_no_frame_count_and_the_default_rate(tmp_path):
    assert frame_count(tmp_path / "nothing.mkv") is None
    assert frame_rate(tmp_path / "nothing.mkv") == 25
    with pytest.raises(VideoError, match=r"nothing\.mkv cannot be read as a video"):
        list(frames(tmp_path / "nothing.mkv"))
