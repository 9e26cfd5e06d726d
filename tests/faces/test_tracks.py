"""From video to tracks: a real film, the real detector and tracker."""

import csv
import json
import shutil
import signal
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from taskfree import data
from taskfree.cli import main
from taskfree.faces import clip, series, tracks
from taskfree.faces.detect import Detector, Face
from taskfree.faces.tracks import Follower
from taskfree.faces.video import Shots, VideoError, frames, length

CUTS = [259, 317]
"""Where shots of the clip begin, by eye."""
FIRST, LAST = 240, 330


def fetched(name):
    try:
        return data.fetch(name)
    except OSError as error:
        pytest.skip(f"no {name}: {error}")


def write(file, pictures, rate=25):
    with av.open(str(file), "w") as out:
        stream = out.add_stream("libx264", rate=rate, options={"crf": "12"})
        stream.height, stream.width = pictures[0].shape[:2]
        stream.pix_fmt = "yuv420p"
        for picture in pictures:
            out.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        out.mux(stream.encode(None))


@pytest.fixture(scope="module")
def film(tmp_path_factory):
    """Ninety frames of the clip, with two cuts in them."""
    fetched("yunet")
    file = tmp_path_factory.mktemp("film") / "part.mp4"
    whole = frames(fetched("bbt"))
    write(file, [f.picture for f in whole if FIRST <= f.number < LAST])
    return file


@pytest.fixture(scope="module")
def found(film, tmp_path_factory):
    out = tmp_path_factory.mktemp("found") / "series"
    assert main(["tracks", str(film), "--out", str(out)]) == 0
    return out


def test_shots_are_cut_where_they_are_and_nowhere_else(film):
    shots = Shots()
    assert [f.number + FIRST for f in frames(film) if shots.cut(f.picture)] == CUTS


def test_no_track_goes_across_a_cut_and_what_is_written_is_whole(found):
    told = json.loads((found / "01-part" / "done.json").read_text())
    assert [at + FIRST for at in told["cuts"]] == CUTS
    read = tracks.read(found)
    assert len(read) == told["tracks"] >= 3
    for track in read:
        assert not any(track.first < cut <= track.last for cut in told["cuts"])
        pictures = tracks.crops(found, track)
        assert len(pictures) == -(-track.faces // 5), "one face every five frames"
    with open(found / "01-part" / "faces.csv", newline="") as rows:
        faces = list(csv.DictReader(rows))
    assert list(faces[0]) == list(tracks.FIELDS)
    assert len(faces) == sum(track.faces for track in read)
    for track in read:  # which tracks share a frame
        own = {row["frame"] for row in faces if int(row["track"]) == track.track}
        others = {int(row["track"]) for row in faces if row["frame"] in own} - {track.track}
        assert set(track.shares) == others
    sheet = (found / "sheet.html").read_text()
    assert sheet.count("<tr>") == len(read)


def test_one_table_has_all_faces_of_all_videos_with_the_tracks_in_the_same_frame(found, tmp_path):
    series = tmp_path / "series"
    for number in ("01", "02"):
        shutil.copytree(found / "01-part", series / f"{number}-part")
    tracks.gather(series)
    with open(series / "faces.csv", newline="") as rows:
        faces = list(csv.DictReader(rows))
    assert list(faces[0]) == ["video", *tracks.FIELDS, "shares a frame with"]
    for video in ("01-part", "02-part"):
        own = [row for row in faces if row["video"] == video]
        with open(series / video / "faces.csv", newline="") as rows:
            assert [{name: row[name] for name in tracks.FIELDS} for row in own] == list(
                csv.DictReader(rows)
            )
        for row in own:
            others = {other["track"] for other in own if other["frame"] == row["frame"]}
            assert set(row["shares a frame with"].split()) == others - {row["track"]}
    assert any(row["shares a frame with"] for row in faces)


def test_what_is_done_is_not_done_again(film, found, capsys):
    before = (found / "01-part" / "faces.csv").stat().st_mtime_ns
    assert main(["tracks", str(film), "--out", str(found)]) == 0
    assert "is done" in capsys.readouterr().out
    assert (found / "01-part" / "faces.csv").stat().st_mtime_ns == before


def test_a_damaged_film_is_an_error_that_keeps_what_came_before(film, tmp_path, capsys):
    broken, good = tmp_path / "broken.mkv", tmp_path / "good.mkv"
    with av.open(str(film)) as source, av.open(str(good), "w") as out:
        stream = out.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(video=0):
            if packet.dts is not None:
                packet.stream = stream
                out.mux(packet)
    content = good.read_bytes()
    broken.write_bytes(content[: len(content) // 2])
    assert main(["tracks", str(broken), str(tmp_path / "none.mp4"), "--out", str(tmp_path)]) == 2
    assert "there is no" in capsys.readouterr().err
    text = tmp_path / "text.mp4"
    text.write_text("no film")
    assert main(["tracks", str(text), "--out", str(tmp_path / "a")]) == 2
    assert "cannot be read as a video" in capsys.readouterr().err
    assert main(["tracks", str(broken), "--out", str(tmp_path / "b")]) == 2
    assert "ends after frame" in capsys.readouterr().err
    assert not list((tmp_path / "b").glob("*/done.json")), "it is looked at again the next time"
    kept = tracks.read(tmp_path / "b")
    assert kept
    assert max(track.last for track in kept) < LAST - FIRST


def test_what_is_interrupted_goes_on_from_the_last_cut_and_finds_the_same(film, found, tmp_path):
    command = [sys.executable, "-m", "taskfree", "tracks", str(film), "--out", str(tmp_path)]
    written = tmp_path / "01-part" / "progress.json"
    begun = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while not written.exists():
        assert begun.poll() is None, "it ended before it was interrupted"
        time.sleep(0.01)
    begun.send_signal(signal.SIGKILL)
    begun.wait()
    assert not (tmp_path / "01-part" / "done.json").exists()
    (tmp_path / "01-part" / "crops" / "00099").mkdir()  # of a shot that was not finished
    with open(tmp_path / "01-part" / "faces.csv", "a") as out:
        out.write("88,3.5,0,0,9,9,0.9,99\n")
    again = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "90 frames" in again.stdout
    for name in ("tracks.csv", "01-part/faces.csv", "01-part/progress.json"):
        assert (tmp_path / name).read_text() == (found / name).read_text(), name
    files, wanted = (
        {str(f.relative_to(place)): f.read_bytes() for f in place.glob("*/crops/*/*.jpg")}
        for place in (tmp_path, found)
    )
    assert files == wanted


def test_episodes_can_come_one_at_a_time(film, found, tmp_path, capsys):
    shutil.copytree(found, tmp_path / "series")
    other = tmp_path / "next #2?.mp4"
    write(other, [f.picture for f in frames(film) if f.number < 15])
    again = tmp_path / "elsewhere" / "part.mp4"  # another film of the same name
    again.parent.mkdir()
    write(again, [f.picture for f in frames(film) if f.number < 10])
    for video, name in ((other, "02-next #2?"), (again, "03-part"), (film, "01-part")):
        assert main(["tracks", str(video), "--out", str(tmp_path / "series")]) == 0
        assert f"{name}{' is done' if video == film else ':'}" in capsys.readouterr().out
    videos = {track.video for track in tracks.read(tmp_path / "series")}
    assert videos == {"01-part", "02-next #2?", "03-part"}


def test_other_options_for_what_is_done_are_refused(film, found, capsys):
    before = (found / "tracks.csv").read_text()
    assert main(["tracks", str(film), "--out", str(found), "--every", "1"]) == 2
    assert "was made with other options" in capsys.readouterr().err
    assert (found / "tracks.csv").read_text() == before


def test_a_damaged_film_that_was_replaced_by_the_whole_one_is_looked_at_from_the_start(
    film, found, tmp_path
):
    out = tmp_path / "series"
    (out / "01-part" / "crops" / "00007").mkdir(parents=True)
    before = {"video": {"file": "part.mp4", "bytes": 1}, "path": str(film.resolve())}
    (out / "01-part" / "progress.json").write_text(json.dumps(before))
    assert main(["tracks", str(film), "--out", str(out)]) == 0
    assert (out / "tracks.csv").read_text() == (found / "tracks.csv").read_text()
    assert not (out / "01-part" / "crops" / "00007").exists()


def test_what_was_kept_of_an_unfinished_film_is_never_another_s_nor_made_otherwise(
    film, found, tmp_path, capsys
):
    out = tmp_path / "series"
    shutil.copytree(found, out)
    (out / "01-part" / "done.json").unlink()
    before = {file: file.read_bytes() for file in (out / "01-part").rglob("*.*")}
    other = tmp_path / "part.mp4"  # of the same name, elsewhere
    write(other, [f.picture for f in frames(film) if f.number < 10])
    assert main(["tracks", str(other), "--out", str(out)]) == 0
    assert "02-part:" in capsys.readouterr().out
    assert main(["tracks", str(film), "--out", str(out), "--shortest", "3"]) == 2
    assert "was made with other options" in capsys.readouterr().err
    assert {file: file.read_bytes() for file in (out / "01-part").rglob("*.*")} == before


def test_a_picture_that_cannot_be_written_is_said(tmp_path):
    with pytest.raises(OSError, match=r"000007\.jpg could not be written"):
        tracks._write_crop(tmp_path / "none", 7, np.zeros((8, 8, 3), np.uint8))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "say which videos"),
        (["--score", "7"], "score must be above 0 and at most 1, got 7"),
        (["--cut", "0"], "cut must be above 0"),
        (["--every", "0"], "every must be"),
    ],
)
def test_options_that_are_wrong_are_named(tmp_path, words, said, capsys):
    film = tmp_path / "film.mp4"
    film.touch()
    videos = [str(film)] if words else []
    with pytest.raises(SystemExit, match="2"):
        main(["tracks", *videos, "--out", str(tmp_path / "out"), *words])
    assert said in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "out").exists()


def pictures(count, seed=0, light=1.0):
    """A scene that moves a little."""
    scene = np.random.default_rng(seed).integers(0, 255, (8, 12, 3)).repeat(12, 0).repeat(12, 1)
    return [(np.roll(scene, at, 1) * light).astype(np.uint8) for at in range(count)]


@pytest.mark.parametrize("light", [1.0, 0.5, 0.25])
def test_a_cut_is_found_in_the_dark_and_a_change_of_light_is_none(light):
    shots = Shots()
    film = pictures(10, 0, light) + pictures(10, 1, light)
    assert [at for at, picture in enumerate(film) if shots.cut(picture)] == [10]
    shots = Shots()
    lights = np.linspace(1, 0.5, 10) * light
    dimmed = [(pictures(1)[0] * one).astype(np.uint8) for one in lights]
    assert not any(shots.cut(picture) for picture in dimmed)


def test_a_film_whose_sound_goes_on_or_whose_frames_come_unevenly_is_whole(tmp_path):
    with av.open(str(tmp_path / "sound.mkv"), "w") as out:
        video, audio = out.add_stream("libx264", rate=25), out.add_stream("aac", rate=8000)
        video.height, video.width, video.pix_fmt = 96, 144, "yuv420p"
        for picture in pictures(50):
            out.mux(video.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
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
        for at, picture in enumerate(pictures(50)):
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            frame.pts, frame.time_base = (at if at < 25 else 25 + 6 * (at - 25)), Fraction(1, 25)
            out.mux(video.encode(frame))
        out.mux(video.encode(None))
    assert len(list(frames(tmp_path / "uneven.mkv"))) == 50


def test_a_film_without_pictures_says_so(tmp_path):
    with av.open(str(tmp_path / "sound.mkv"), "w") as out:
        stream = out.add_stream("aac", rate=44100)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), "fltp", "mono")
        frame.rate = 44100
        out.mux(stream.encode(frame))
        out.mux(stream.encode(None))
    with pytest.raises(VideoError, match="no pictures"):
        list(frames(tmp_path / "sound.mkv"))
    assert length(tmp_path / "nothing.mkv") is None


def test_the_detector_finds_nothing_where_nothing_is():
    fetched("yunet")
    picture = np.random.default_rng(0).integers(0, 255, (300, 400, 3), dtype=np.uint8)
    assert Detector().faces(picture) == []


def test_faces_of_a_large_picture_are_where_they_are_in_it(film):
    picture = next(f.picture for f in frames(film) if f.number == 85)
    large = picture.repeat(2, 0).repeat(2, 1)  # it is looked at as small as the other
    once, twice = (Detector().faces(one) for one in (picture, large))
    assert once
    assert len(once) == len(twice)
    for face, other in zip(once, twice, strict=True):
        assert other[:4] == pytest.approx([2 * value for value in face[:4]], abs=4)


def test_the_clip_becomes_a_series_of_its_three_actors(tmp_path):
    fetched("yunet")
    fetched("bbt")
    folder = clip.tracks(tmp_path / "clip")
    cuts = json.loads((folder / "01-bbt" / "done.json").read_text())["cuts"]
    assert set(cuts) >= {259, 317, 377, 459, 603, 654}, "by eye"
    assert not any(t.first < cut <= t.last for t in tracks.read(folder) for cut in cuts)
    found = series.from_folder(folder, held_out=0, size=8)
    assert set(found.templates) == set(found.held_out) == set(clip.NAMES)
    actors = [track.actor for track in found.tracks if track.actor]
    assert {name: actors.count(name) for name in clip.NAMES} == {
        name: len(numbers) for name, numbers in clip.NAMES.items()
    }
    before = (folder / "labels.csv").read_text()
    assert clip.tracks(folder) == folder
    assert (folder / "labels.csv").read_text() == before


CLIPS = Path(__file__).parents[3] / "shared/data/video"
PEOPLE = {"classroom": 4, "face-demographics-walking-and-pause": 3, "face-demographics-walking": 2,
          "head-pose-face-detection-female-and-male": 2}  # fmt: skip


@pytest.mark.parametrize("name", PEOPLE)
def test_every_person_of_a_clip_is_one_track_that_stays_where_it_is(name, tmp_path):
    file = CLIPS / f"{name}.gif"
    if not file.exists():
        pytest.skip(f"the clips of intel-iot-devkit/sample-videos are not in {CLIPS}")
    fetched("yunet")
    assert main(["tracks", str(file), "--out", str(tmp_path)]) == 0
    found = tracks.read(tmp_path)
    assert len(found) == PEOPLE[name]
    count = json.loads((tmp_path / f"01-{name}" / "done.json").read_text())["frames"]
    assert all(track.faces >= count - 2 for track in found), "from the first to the last frame"
    with open(tmp_path / "faces.csv", newline="") as rows:
        faces = [{k: float(row[k]) for k in tracks.FIELDS} for row in csv.DictReader(rows)]
    before = {}
    for face in faces:  # whoever is followed does not jump onto somebody else
        last = before.setdefault(face["track"], face)
        away = max(abs(face[side] - last[side]) for side in ("left", "top"))
        assert away < 0.5 * (face["right"] - face["left"])
        before[face["track"]] = face


def box(x, y, size=50, score=0.9):
    return Face(x, y, x + size, y + size, score)


def test_two_faces_that_pass_each_other_keep_their_tracks():
    follower, owners = Follower(), {}
    for step in range(60):
        left, right = box(20 + 8 * step, 100), box(500 - 8 * step, 180)
        for face, track in follower.follow([left, right]):
            owners.setdefault("left" if face == left else "right", set()).add(track)
    assert all(len(tracks) == 1 for tracks in owners.values())
    assert owners["left"] != owners["right"]


def test_faces_of_a_low_score_begin_tracks_if_they_are_wanted():
    low = [[box(100, 50, score=0.4)]] * 5
    assert not any(follower.follow(faces) for follower in [Follower()] for faces in low)
    assert any(follower.follow(faces) for follower in [Follower(score=0.3)] for faces in low)


def test_a_face_that_is_missed_for_a_moment_is_the_same_afterwards_but_not_after_a_cut():
    follower = Follower()
    seen = []
    for step in range(30):
        hidden = 10 <= step < 14
        if step == 25:
            follower.cut()
        seen += [track for _, track in follower.follow([] if hidden else [box(100 + step, 50)])]
    assert len(set(seen[:-4])) == 1
    assert set(seen[-4:]) == {1}, "a track begins with its second face"
