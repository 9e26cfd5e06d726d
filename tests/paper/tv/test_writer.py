"""The files of a video's tracks, written shot by shot."""

import csv
import json

import numpy as np
import pytest

from taskfree.paper.tv.crops import FIELDS
from taskfree.paper.tv.detect import Face
from taskfree.paper.tv.video import Frame
from taskfree.paper.tv.writer import CropOptions, TrackWriter

CROPS = CropOptions(every=2, size=16, shortest=3)
OPTIONS = {"score": 0.6}


@pytest.fixture
def video(tmp_path):
    file = tmp_path / "film.mp4"
    file.write_bytes(b"images")
    return file


def add_shot(writer, first, last, tracks, numbers=0):
    """A shot in which each track has this many faces."""
    for number, length in enumerate(tracks, numbers):
        for frame in range(first, first + length):
            face = Face(10, 10, 30.04, 30, 0.98765)
            writer.add(Frame(frame, frame / 25, np.zeros((48, 48, 3), np.uint8)), face, number)
    writer.end_shot(last)


def rows(folder):
    with open(folder / "faces.csv", newline="") as table:
        return list(csv.DictReader(table))


def crop_names(folder):
    return sorted(str(file.relative_to(folder / "crops")) for file in folder.glob("crops/*/*"))


def test_tracks_are_numbered_across_shots_and_short_ones_dropped(video, tmp_path):
    folder = tmp_path / "out"
    writer = TrackWriter(folder, video, OPTIONS, CROPS)
    add_shot(writer, 0, 10, [4, 2])
    add_shot(writer, 10, 20, [3], numbers=2)
    found = rows(folder)
    assert list(found[0]) == list(FIELDS)
    assert [int(row["track"]) for row in found] == [0, 0, 0, 0, 1, 1, 1]
    assert [int(row["frame"]) for row in found] == [0, 1, 2, 3, 10, 11, 12]
    assert (found[1]["seconds"], found[1]["right"], found[1]["score"]) == ("0.04", "30.0", "0.988")
    assert crop_names(folder) == [
        "00000/000000.jpg", "00000/000002.jpg", "00001/000010.jpg", "00001/000012.jpg",
    ]  # fmt: skip
    assert not (folder / "shot").exists()
    writer.cuts.append(10)
    summary = writer.finish(speed=3)
    assert summary == {"frames": 20, "tracks": 2, "cuts": [10], "speed": 3}
    assert json.loads((folder / "done.json").read_text()) == summary
    assert TrackWriter(folder, video, OPTIONS, CROPS).done


def test_an_interrupted_run_continues_from_the_last_shot(video, tmp_path):
    folder, whole = tmp_path / "out", tmp_path / "whole"
    writer = TrackWriter(folder, video, OPTIONS, CROPS)
    add_shot(writer, 0, 10, [4])
    for frame in range(10, 14):  # and then it is interrupted in the middle of a shot
        image = np.zeros((48, 48, 3), np.uint8)
        writer.add(Frame(frame, frame / 25, image), Face(1, 1, 9, 9, 0.9), 1)
    (folder / "crops" / "00001").mkdir()  # or while the shot was written
    with open(folder / "faces.csv", "a") as out:
        out.write("10,0.4,0,0,9,9,0.9,1\n")
    again = TrackWriter(folder, video, OPTIONS, CROPS)
    assert (again.frames, again.tracks) == (10, 1)
    assert crop_names(folder) == ["00000/000000.jpg", "00000/000002.jpg"]
    add_shot(again, 10, 20, [3], numbers=1)
    uninterrupted = TrackWriter(whole, video, OPTIONS, CROPS)
    add_shot(uninterrupted, 0, 10, [4])
    add_shot(uninterrupted, 10, 20, [3], numbers=1)
    for name in ("faces.csv", "progress.json"):
        assert (folder / name).read_text() == (whole / name).read_text()
    assert crop_names(folder) == crop_names(whole)


def test_other_options_are_refused(video, tmp_path):
    writer = TrackWriter(tmp_path / "out", video, OPTIONS, CROPS)
    TrackWriter(tmp_path / "out", video, {"score": 0.1}, CROPS)  # nothing is written yet
    add_shot(writer, 0, 10, [4])
    with pytest.raises(ValueError, match="was made with other options"):
        TrackWriter(tmp_path / "out", video, {"score": 0.1}, CROPS)


def test_another_video_starts_from_the_beginning(video, tmp_path):
    writer = TrackWriter(tmp_path / "out", video, OPTIONS, CROPS)
    add_shot(writer, 0, 10, [4])
    video.write_bytes(b"other images")
    again = TrackWriter(tmp_path / "out", video, OPTIONS, CROPS)
    assert (again.frames, again.tracks) == (0, 0)
    assert rows(tmp_path / "out") == []
    assert crop_names(tmp_path / "out") == []
