"""`taskfree tracks`, from a real video to tracks, with the real detector and tracker."""

import csv
import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import av
import pytest
from footage import FIRST, LAST, fetched, write_video

from taskfree.cli import main
from taskfree.paper.tv import tables
from taskfree.paper.tv.video import frames

CUTS = [259, 317]
"""The first frames of shots in the clip, by eye."""


def test_no_track_crosses_a_cut_and_all_files_are_consistent(tracked):
    done = json.loads((tracked / "01-part" / "done.json").read_text())
    assert [at + FIRST for at in done["cuts"]] == CUTS
    tracks = tables.read(tracked)
    assert len(tracks) == done["tracks"] >= 3
    for track in tracks:
        assert not any(track.first < cut <= track.last for cut in done["cuts"])
        images = tables.crops(tracked, track)
        assert len(images) == -(-track.faces // 5), "every fifth face"
    with open(tracked / "01-part" / "faces.csv", newline="") as rows:
        faces = list(csv.DictReader(rows))
    assert list(faces[0]) == list(tables.FIELDS)
    assert len(faces) == sum(track.faces for track in tracks)
    for track in tracks:
        own = {row["frame"] for row in faces if int(row["track"]) == track.track}
        others = {int(row["track"]) for row in faces if row["frame"] in own} - {track.track}
        assert set(track.co_occurring) == others
    sheet = (tracked / "sheet.html").read_text()
    assert sheet.count("<tr>") == len(tracks)


def test_a_finished_video_is_not_processed_again(film, tracked, capsys):
    before = (tracked / "01-part" / "faces.csv").stat().st_mtime_ns
    assert main(["tracks", str(film), "--out", str(tracked)]) == 0
    assert "is done" in capsys.readouterr().out
    assert (tracked / "01-part" / "faces.csv").stat().st_mtime_ns == before


def test_a_damaged_video_raises_and_the_tracks_before_are_saved(film, tmp_path, capsys):
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
    assert "there is no video" in capsys.readouterr().err
    text = tmp_path / "text.mp4"
    text.write_text("no video")
    assert main(["tracks", str(text), "--out", str(tmp_path / "a")]) == 2
    assert "cannot be read as a video" in capsys.readouterr().err
    assert main(["tracks", str(broken), "--out", str(tmp_path / "b")]) == 2
    assert "ends after frame" in capsys.readouterr().err
    assert not list((tmp_path / "b").glob("*/done.json")), "it is processed again the next time"
    saved = tables.read(tmp_path / "b")
    assert saved
    assert max(track.last for track in saved) < LAST - FIRST


KILLED = """
import os, signal
from taskfree.cli import main
from taskfree.paper.tv.detect import FaceDetector

detect, calls = FaceDetector.faces, []

def faces(self, image):
    calls.append(image.shape)
    if len(calls) == {frame}:
        os.kill(os.getpid(), signal.SIGKILL)
    return detect(self, image)

FaceDetector.faces = faces
main({arguments})
"""


def test_a_killed_run_continues_from_the_last_cut_and_finds_the_same_tracks(
    film, tracked, tmp_path, capsys
):
    arguments = ["tracks", str(film), "--out", str(tmp_path)]
    script = KILLED.format(frame=30, arguments=arguments)
    killed = subprocess.run([sys.executable, "-c", script], stdout=subprocess.DEVNULL)
    assert killed.returncode == -signal.SIGKILL
    progress = json.loads((tmp_path / "01-part" / "progress.json").read_text())
    assert progress["frames"] == CUTS[0] - FIRST
    assert not (tmp_path / "01-part" / "done.json").exists()
    (tmp_path / "01-part" / "crops" / "00099").mkdir()  # of an unfinished shot
    with open(tmp_path / "01-part" / "faces.csv", "a") as out:
        out.write("70,2.8,0,0,9,9,0.9,99\n")
    assert main(arguments) == 0
    assert f"{LAST - FIRST} frames" in capsys.readouterr().out
    for name in ("tracks.csv", "01-part/faces.csv", "01-part/progress.json"):
        assert (tmp_path / name).read_text() == (tracked / name).read_text(), name
    crops, expected = (
        {str(f.relative_to(folder)): f.read_bytes() for f in folder.glob("*/crops/*/*.jpg")}
        for folder in (tmp_path, tracked)
    )
    assert crops == expected


def test_episodes_can_be_added_one_at_a_time(film, tracked, tmp_path, capsys):
    shutil.copytree(tracked, tmp_path / "series")
    images = [f.image for f in frames(film) if f.number < 15]
    other = tmp_path / "next #2?.mp4"
    write_video(other, images)
    again = tmp_path / "elsewhere" / "part.mp4"  # another video with the same name
    again.parent.mkdir()
    write_video(again, images[:10])
    for video, name in ((other, "02-next #2?"), (again, "03-part"), (film, "01-part")):
        assert main(["tracks", str(video), "--out", str(tmp_path / "series")]) == 0
        assert f"{name}{' is done' if video == film else ':'}" in capsys.readouterr().out
    videos = {track.video for track in tables.read(tmp_path / "series")}
    assert videos == {"01-part", "02-next #2?", "03-part"}


def test_other_options_for_a_finished_video_are_refused(film, tracked, capsys):
    before = (tracked / "tracks.csv").read_text()
    assert main(["tracks", str(film), "--out", str(tracked), "--every", "1"]) == 2
    assert "was made with other options" in capsys.readouterr().err
    assert (tracked / "tracks.csv").read_text() == before


def test_a_damaged_video_that_was_replaced_is_processed_from_the_start(film, tracked, tmp_path):
    out = tmp_path / "series"
    (out / "01-part" / "crops" / "00007").mkdir(parents=True)
    before = {"video": {"file": "part.mp4", "bytes": 1}, "path": str(film.resolve())}
    (out / "01-part" / "progress.json").write_text(json.dumps(before))
    assert main(["tracks", str(film), "--out", str(out)]) == 0
    assert (out / "tracks.csv").read_text() == (tracked / "tracks.csv").read_text()
    assert not (out / "01-part" / "crops" / "00007").exists()


def test_an_unfinished_video_is_never_continued_with_another_video_or_other_options(
    film, tracked, tmp_path, capsys
):
    out = tmp_path / "series"
    shutil.copytree(tracked, out)
    (out / "01-part" / "done.json").unlink()
    before = {file: file.read_bytes() for file in (out / "01-part").rglob("*.*")}
    other = tmp_path / "part.mp4"  # with the same name in another folder
    write_video(other, [f.image for f in frames(film) if f.number < 10])
    assert main(["tracks", str(other), "--out", str(out)]) == 0
    assert "02-part:" in capsys.readouterr().out
    assert main(["tracks", str(film), "--out", str(out), "--shortest", "3"]) == 2
    assert "was made with other options" in capsys.readouterr().err
    assert {file: file.read_bytes() for file in (out / "01-part").rglob("*.*")} == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "no videos given"),
        (["--score", "7"], "score must be above 0 and at most 1, got 7"),
        (["--cut", "0"], "cut must be above 0"),
        (["--every", "0"], "every must be"),
    ],
)
def test_invalid_options_are_refused(tmp_path, options, message, capsys):
    film = tmp_path / "film.mp4"
    film.touch()
    videos = [str(film)] if options else []
    with pytest.raises(SystemExit, match="2"):
        main(["tracks", *videos, "--out", str(tmp_path / "out"), *options])
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "out").exists()


CLIPS = Path(__file__).parents[4] / "shared/data/video"
PEOPLE = {"classroom": 4, "face-demographics-walking-and-pause": 3, "face-demographics-walking": 2,
          "head-pose-face-detection-female-and-male": 2}  # fmt: skip


@pytest.mark.parametrize("name", PEOPLE)
def test_every_person_of_a_clip_is_one_track(name, tmp_path):
    file = CLIPS / f"{name}.gif"
    if not file.exists():
        pytest.skip(f"the clips of intel-iot-devkit/sample-videos are not in {CLIPS}")
    fetched("yunet")
    assert main(["tracks", str(file), "--out", str(tmp_path)]) == 0
    tracks = tables.read(tmp_path)
    assert len(tracks) == PEOPLE[name]
    count = json.loads((tmp_path / f"01-{name}" / "done.json").read_text())["frames"]
    assert all(track.faces >= count - 2 for track in tracks), "from the first to the last frame"
    with open(tmp_path / "faces.csv", newline="") as rows:
        faces = [{k: float(row[k]) for k in tables.FIELDS} for row in csv.DictReader(rows)]
    before = {}
    for face in faces:  # a track does not jump to another person
        last = before.setdefault(face["track"], face)
        distance = max(abs(face[side] - last[side]) for side in ("left", "top"))
        assert distance < 0.5 * (face["right"] - face["left"])
        before[face["track"]] = face
