"""`taskfree tracks`: from videos to face tracks, in a format that anyone can read.

The folder holds, for each video, `VIDEO/faces.csv` with a line a face (frame, seconds, box, score,
track) and `VIDEO/crops/TRACK/FRAME.jpg`; over all of them `tracks.csv` with a line a track, which
says the tracks that share a frame with it, and `sheet.html`, a contact sheet of all tracks.
"""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from html import escape
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any, NamedTuple
from urllib.parse import quote

import cv2
import numpy as np
import supervision as sv
import tyro
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from trackers import ByteTrackTracker

from taskfree import arguments
from taskfree.faces.detect import Detector, Face
from taskfree.faces.video import Shots, VideoError, frames, length

FIELDS = ("frame", "seconds", "left", "top", "right", "bottom", "score", "track")


@dataclass(frozen=True)
class Config:
    """Find faces in videos, follow them, and write them down: crops, boxes, tracks.

    What is finished is not done again. A video that is damaged keeps what came before the damage.

        taskfree tracks episode1.mkv episode2.mkv --out series
    """

    videos: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """in the order in which they were shown"""
    out: Path
    """the folder for all that is found"""
    score: float = 0.6
    """the least score of a face, between 0 and 1"""
    largest: int = 720
    """frames with a longer side than this are made smaller before they are looked at"""
    cut: float = 0.3
    """the share of a frame whose colours must change to begin a new shot, between 0 and 1"""
    shortest: int = 5
    """tracks of fewer faces are left out"""
    every: int = 5
    """of a track, every so many-th face is kept as a crop"""
    size: int = 224
    """pixels of a crop in height and width"""

    def __post_init__(self) -> None:
        for name in ("largest", "shortest", "every", "size"):
            arguments.whole(name, getattr(self, name), least=1)


class Seen(NamedTuple):
    """A face that is followed."""

    frame: int
    seconds: float
    face: Face
    track: int


class Follower:
    """Follows faces from frame to frame; at a cut it begins anew.

    Tracks are numbered in the order in which they begin.
    """

    def __init__(self, rate: float = 25.0) -> None:
        self._make: Any = lambda: ByteTrackTracker(
            frame_rate=rate, lost_track_buffer=int(rate / 2), track_activation_threshold=0.6,
            minimum_consecutive_frames=1, minimum_iou_threshold=0.2,
        )  # fmt: skip
        self._tracker = self._make()
        self._numbers: dict[int, int] = {}
        self._next = 0

    def cut(self) -> None:
        """A new shot begins: nobody is where somebody was."""
        self._tracker, self._numbers = self._make(), {}

    def follow(self, faces: list[Face]) -> list[tuple[Face, int]]:
        """Which track each face belongs to."""
        boxes = np.array([face[:4] for face in faces], dtype=np.float32).reshape(-1, 4)
        scores = np.array([face.score for face in faces], dtype=np.float32)
        told: Any = self._tracker.update(
            sv.Detections(xyxy=boxes, confidence=scores, data={"at": np.arange(len(faces))})
        )
        found = []
        for at, number in zip(told.data.get("at", []), told.tracker_id, strict=True):
            if number < 0:
                continue
            if number not in self._numbers:
                self._numbers[number], self._next = self._next, self._next + 1
            found.append((faces[int(at)], self._numbers[number]))
        return found


def run(config: Config) -> None:
    """All videos, then the tables and the contact sheet over all of them."""
    console = Console()
    for video in config.videos:
        if not video.exists():
            raise ValueError(f"there is no {video}")
    names = [_name(config, at) for at in range(len(config.videos))]
    config.out.mkdir(parents=True, exist_ok=True)
    problems = []
    for at, name in enumerate(names):
        if (config.out / name / "done.json").exists():
            console.print(f"{name} is done")
            continue
        try:
            told = track(config, config.videos[at], name)
        except VideoError as error:
            problems.append(str(error))
            continue
        console.print(f"{name}: {told['frames']} frames, {told['tracks']} tracks, "
                      f"{told['frames a second']} frames a second")  # fmt: skip
    gather(config.out, names)
    console.print(f"tracks: {config.out / 'tracks.csv'}, to look at: {config.out / 'sheet.html'}")
    if problems:
        raise ValueError("; ".join(problems))


def _name(config: Config, at: int) -> str:
    """A video's folder: its place in the order, and its name."""
    return f"{at + 1:02d}-{config.videos[at].stem}"


def track(config: Config, video: Path, name: str) -> dict[str, Any]:
    """One video: every face is written down when its track is long enough."""
    folder = config.out / name
    folder.mkdir(parents=True, exist_ok=True)
    detector = Detector(config.score, config.largest)
    shots, follower = Shots(config.cut), Follower()
    kept: dict[int, list[Seen]] = {}
    pictures: dict[int, list[tuple[int, Any]]] = {}
    cuts, count, started, damage = [], 0, perf_counter(), None
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(),
               TextColumn("{task.fields[rate]:.0f} frames a second"))  # fmt: skip
    with Progress(*columns) as progress:
        bar = progress.add_task(name, total=length(video), rate=0.0)
        try:
            for frame in frames(video):
                if shots.cut(frame.picture):
                    cuts.append(frame.number)
                    follower.cut()
                for face, number in follower.follow(detector.faces(frame.picture)):
                    seen = kept.setdefault(number, [])
                    if len(seen) % config.every == 0:
                        crop = cropped(frame.picture, face, config.size)
                        pictures.setdefault(number, []).append((frame.number, crop))
                    seen.append(Seen(frame.number, frame.seconds, face, number))
                count += 1
                rate = count / (perf_counter() - started)
                progress.update(bar, advance=1, rate=rate)
        except VideoError as error:
            if not count:
                raise
            damage = error
    long = [number for number in kept if len(kept[number]) >= config.shortest]
    _write(folder, long, kept, pictures)
    told = {
        "frames": count, "tracks": len(long), "cuts": cuts,
        "frames a second": round(count / (perf_counter() - started), 1),
    }  # fmt: skip
    if damage is not None:
        raise damage
    (folder / "done.json").write_text(json.dumps(told))
    return told


def cropped(picture: Any, face: Face, size: int) -> Any:
    """The face with a little around it, as a square picture of bytes, red first."""
    x, y = (face.left + face.right) / 2, (face.top + face.bottom) / 2
    half = 0.6 * max(face.right - face.left, face.bottom - face.top)
    height, width = picture.shape[:2]
    left, top = max(0, int(x - half)), max(0, int(y - half))
    right, bottom = min(width, int(x + half) + 1), min(height, int(y + half) + 1)
    return cv2.resize(picture[top:bottom, left:right], (size, size), interpolation=cv2.INTER_AREA)


def _write(
    folder: Path,
    long: list[int],
    kept: dict[int, list[Seen]],
    crops: dict[int, list[tuple[int, Any]]],
) -> None:
    """A video's table and its crops. Tracks are numbered anew, without those left out."""
    numbers = {number: at for at, number in enumerate(long)}
    faces = sorted(seen for number in long for seen in kept[number])
    with open(folder / "faces.csv", "w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(FIELDS)
        for seen in faces:
            box = [round(value, 1) for value in seen.face[:4]]
            writer.writerow([
                seen.frame, round(seen.seconds, 3), *box, round(seen.face.score, 3),
                numbers[seen.track],
            ])  # fmt: skip
    for number in long:
        place = folder / "crops" / f"{numbers[number]:05d}"
        place.mkdir(parents=True, exist_ok=True)
        for frame, crop in crops[number]:
            bgr = cv2.cvtColor(crop, cv2.COLOR_RGB2BGR)
            cv2.imwrite(str(place / f"{frame:06d}.jpg"), bgr, [cv2.IMWRITE_JPEG_QUALITY, 92])


class Track(NamedTuple):
    """A face that was followed, as `tracks.csv` says it."""

    video: str
    track: int
    first: int
    last: int
    seconds: float
    """When it begins."""
    faces: int
    shares: tuple[int, ...]
    """The tracks of the same video that are seen in the same frames: other people."""

    @property
    def name(self) -> str:
        """What labels call it."""
        return f"{self.video}/{self.track:05d}"


def read(folder: Path) -> list[Track]:
    """All tracks of a folder, in the order in which they were seen."""
    file = folder / "tracks.csv"
    if not file.exists():
        raise ValueError(f"{folder} holds no tracks; make them with taskfree tracks")
    with open(file, newline="") as rows:
        return [
            Track(
                row["video"], int(row["track"]), int(row["first"]), int(row["last"]),
                float(row["seconds"]), int(row["faces"]),
                tuple(map(int, row["shares a frame with"].split())),
            )
            for row in csv.DictReader(rows)
        ]  # fmt: skip


def crops(folder: Path, track: Track) -> list[Path]:
    """The pictures of a track, in order."""
    return sorted((folder / track.video / "crops" / f"{track.track:05d}").glob("*.jpg"))


def cut(folder: Path, every: int = 5, size: int = 224) -> None:
    """Cut the crops of an episode that has `frames/*.jpg` and `faces.csv`, but no crops yet.

    A frame is known by the number in its file's name. This is how a dataset of frames, faces and
    tracks, such as the paper's, becomes a series.
    """
    frames_of: dict[int, list[tuple[int, Face]]] = {}
    with open(folder / "faces.csv", newline="") as rows:
        for row in csv.DictReader(rows):
            left, top, right, bottom = (float(row[name]) for name in FIELDS[2:6])
            face = Face(left, top, right, bottom, float(row.get("score") or 1))
            frames_of.setdefault(int(row["track"]), []).append((int(row["frame"]), face))
    files = {int("".join(filter(str.isdigit, f.stem))): f for f in (folder / "frames").iterdir()}
    for track, seen in frames_of.items():
        place = folder / "crops" / f"{track:05d}"
        place.mkdir(parents=True, exist_ok=True)
        for frame, face in sorted(seen)[::every]:
            if frame not in files:
                raise ValueError(f"{folder / 'frames'} has no frame {frame}, which faces.csv names")
            crop = cropped(cv2.imread(str(files[frame])), face, size)
            cv2.imwrite(str(place / f"{frame:06d}.jpg"), crop, [cv2.IMWRITE_JPEG_QUALITY, 92])


def gather(out: Path, videos: list[str]) -> None:
    """The table of all tracks, and a page to look at them."""
    found: list[Track] = []
    for video in videos:
        if (out / video / "faces.csv").exists():
            found += _tracks(out / video)
    with open(out / "tracks.csv", "w", newline="") as table:
        writer = csv.writer(table)
        heading = ("video", "track", "first", "last", "seconds", "faces", "shares a frame with")
        writer.writerow(heading)
        for track in found:
            writer.writerow([*track[:6], " ".join(map(str, track.shares))])
    (out / "sheet.html").write_text(_sheet(out, found), encoding="utf-8")


def _tracks(folder: Path) -> list[Track]:
    frames_of: dict[int, list[tuple[int, float]]] = {}
    seen_in: dict[int, set[int]] = {}
    with open(folder / "faces.csv", newline="") as rows:
        for row in csv.DictReader(rows):
            track, frame = int(row["track"]), int(row["frame"])
            frames_of.setdefault(track, []).append((frame, float(row.get("seconds") or 0)))
            seen_in.setdefault(frame, set()).add(track)
    shares: dict[int, set[int]] = {track: set() for track in frames_of}
    for together in seen_in.values():
        for track in together:
            shares[track] |= together - {track}
    return [
        Track(
            folder.name, track, at[0][0], at[-1][0], at[0][1], len(at),
            tuple(sorted(shares[track])),
        )
        for track, at in sorted(frames_of.items())
    ]  # fmt: skip


def _sheet(out: Path, tracks: list[Track]) -> str:
    """A contact sheet: a line a track."""
    lines = []
    for track in tracks:
        files = crops(out, track)
        chosen = files[:: max(1, len(files) // 8)][:8]
        pictures = "".join(
            f'<img loading="lazy" alt="" src="{quote(str(file.relative_to(out)))}">'
            for file in chosen
        )
        about = f"{track.faces} faces, {track.seconds:.1f} s"
        lines.append(
            f"<tr><th>{escape(track.name)}<br><small>{about}</small></th><td>{pictures}</td></tr>"
        )
    return (
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>Tracks</title>"
        f"<style>{STYLE}</style><h1>{len(tracks)} tracks</h1>"
        f"<p>Name them with <code>taskfree label {escape(str(out))}</code>.</p>"
        f"<table>{''.join(lines)}</table></html>\n"
    )


STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.4 system-ui, sans-serif; margin: 1.5rem; }
th { text-align: left; padding-right: 1rem; font-weight: 600; }
small { font-weight: 400; opacity: .7; }
img { width: 72px; height: 72px; border-radius: 6px; margin: 2px; }
"""
