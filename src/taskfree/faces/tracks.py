"""`taskfree tracks`: from videos to face tracks, in a format that anyone can read.

The folder holds, for each video, `VIDEO/faces.csv` with a line a face (frame, seconds, box, score,
track) and `VIDEO/crops/TRACK/FRAME.jpg`; over all of them `faces.csv` with the same lines and the
tracks in the same frame, `tracks.csv` with a line a track and the tracks that share a frame with
it, and `sheet.html`, a contact sheet of all tracks.
"""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections.abc import Iterable
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
from rich.progress import track as track_bar
from trackers import ByteTrackTracker

from taskfree import arguments
from taskfree.faces.detect import Detector, Face
from taskfree.faces.video import Frame, Shots, VideoError, frames, length, rate

FIELDS = ("frame", "seconds", "left", "top", "right", "bottom", "score", "track")
SHARES = "shares a frame with"
OPTIONS = ("score", "largest", "cut", "shortest", "every", "size")
"""What a video's tracks depend on."""
PICTURES = (".jpg", ".jpeg", ".png", ".bmp")
LOST = 12
"""A face that is missed for so many frames, of 30 a second, is still the same person's."""


@dataclass(frozen=True)
class Config:
    """Find faces in videos, follow them, and write them down: crops, boxes, tracks.

    What is finished is not done again: more episodes can be added later, and what is interrupted
    goes on from the last cut. A video that is damaged keeps what came before the damage.

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
        if not self.videos:
            raise ValueError("say which videos: taskfree tracks VIDEO [VIDEO ...] --out DIR")
        for name in ("largest", "shortest", "every", "size"):
            arguments.whole(name, getattr(self, name), least=1)
        for name in ("score", "cut"):
            arguments.share(name, getattr(self, name))


class Seen(NamedTuple):
    """A face that is followed."""

    frame: int
    seconds: float
    face: Face
    track: int


class Follower:
    """Follows faces from frame to frame; at a cut it begins anew.

    Tracks are numbered in the order in which they begin.

    Args:
        rate: frames a second.
        score: the least score of a face that begins a track.
    """

    def __init__(self, rate: float = 25.0, score: float = 0.6) -> None:
        self._make: Any = lambda: ByteTrackTracker(
            frame_rate=rate, lost_track_buffer=LOST, track_activation_threshold=score,
            high_conf_det_threshold=score, minimum_consecutive_frames=1, minimum_iou_threshold=0.2,
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
    """All videos, then the tables and the contact sheet over all that the folder holds."""
    console = Console()
    for video in config.videos:
        if not video.exists():
            raise ValueError(f"there is no {video}")
    config.out.mkdir(parents=True, exist_ok=True)
    books: list[Book] = []
    for video in config.videos:
        taken = {book.folder for book in books}
        books.append(Book(_place(config.out, video, taken), video, config))
    problems = []
    for video, book in zip(config.videos, books, strict=True):
        if book.done:
            console.print(f"{book.folder.name} is done")
            continue
        try:
            told = track(config, video, book)
        except VideoError as error:
            problems.append(str(error))
            continue
        console.print(f"{book.folder.name}: {told['frames']} frames, {told['tracks']} tracks, "
                      f"{told['frames a second']} frames a second")  # fmt: skip
    gather(config.out)
    console.print(f"tracks: {config.out / 'tracks.csv'}, to look at: {config.out / 'sheet.html'}")
    if problems:
        raise ValueError("; ".join(problems))


def _place(out: Path, video: Path, taken: set[Path]) -> Path:
    """A video's folder: the one that it has, or a new one, numbered after all that are there."""
    numbered = {
        folder: folder.name.partition("-")
        for folder in sorted(out.iterdir())
        if folder.is_dir() and folder.name.partition("-")[0].isdigit()
    }
    own = [f for f, (_, _, stem) in numbered.items() if stem == video.stem and f not in taken]
    for folder in own:
        if _read_json(folder / "progress.json").get("video") == _identity(video):
            return folder
    for folder in own:  # this file was begun there and could not be finished; now it is another
        before = _read_json(folder / "progress.json")
        if not (folder / "done.json").exists() and before.get("path") == str(video.resolve()):
            return folder
    last = max((int(number) for number, _, _ in numbered.values()), default=0)
    return out / f"{last + 1:02d}-{video.stem}"


def _identity(video: Path) -> dict[str, Any]:
    return {"file": video.name, "bytes": video.stat().st_size}


def _read_json(file: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(file.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return found


class Book:
    """What is written down of a video while it is looked at.

    A shot is written when it has ended. No track goes across a cut, so that whoever is interrupted
    goes on from the last cut and finds the same.

    Args:
        folder: the video's.
        video: which it is.
        config: how it is looked at.
    """

    def __init__(self, folder: Path, video: Path, config: Config) -> None:
        self.folder, self._config = folder, config
        told = {name: getattr(config, name) for name in OPTIONS}
        self._about = {"video": _identity(video), "options": told}
        self._path = str(video.resolve())
        before = _read_json(folder / "progress.json")
        self.done = (folder / "done.json").exists()
        if before.get("video") != self._about["video"]:
            before = {}
        if before.get("frames") and before["options"] != told:
            raise ValueError(
                f"{folder} was made with other options: {before['options']}, now {told}; give "
                "these again, take another --out, or remove the folder"
            )
        self.frames: int = before.get("frames", 0)
        """Of finished shots."""
        self.tracks: int = before.get("tracks", 0)
        self.cuts: list[int] = before.get("cuts", [])
        self._shot: dict[int, list[Seen]] = {}
        if not self.done:
            self._forget_what_is_unfinished()

    def _forget_what_is_unfinished(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(self.folder / "shot", ignore_errors=True)
        for place in (self.folder / "crops").glob("*/"):
            if int(place.name) >= self.tracks:
                shutil.rmtree(place)
        file = self.folder / "faces.csv"
        rows = [list(FIELDS)]
        if self.frames:
            with open(file, newline="") as written:
                rows += [row for row in list(csv.reader(written))[1:] if int(row[0]) < self.frames]
        with open(file, "w", newline="") as out:
            csv.writer(out).writerows(rows)

    def saw(self, frame: Frame, face: Face, number: int) -> None:
        """A face that is followed. Every so many-th of a track is kept as a picture."""
        seen = self._shot.setdefault(number, [])
        if len(seen) % self._config.every == 0:
            place = self.folder / "shot" / str(number)
            place.mkdir(parents=True, exist_ok=True)
            crop = cropped(frame.picture, face, self._config.size)
            _write_crop(place, frame.number, cv2.cvtColor(crop, cv2.COLOR_RGB2BGR))
        seen.append(Seen(frame.number, frame.seconds, face, number))

    def end_shot(self, frames: int) -> None:
        """Nothing of what came before frame number `frames` goes on: write it down."""
        shot, self._shot = self._shot, {}
        rows: list[list[float]] = []
        (self.folder / "crops").mkdir(exist_ok=True)
        for number in sorted(shot):
            if len(shot[number]) < self._config.shortest:
                continue
            place = self.folder / "crops" / f"{self.tracks:05d}"
            (self.folder / "shot" / str(number)).rename(place)
            for seen in shot[number]:
                box = [round(value, 1) for value in seen.face[:4]]
                score = round(seen.face.score, 3)
                rows.append([seen.frame, round(seen.seconds, 3), *box, score, self.tracks])
            self.tracks += 1
        rows.sort(key=lambda row: (row[0], row[-1]))
        with open(self.folder / "faces.csv", "a", newline="") as out:
            csv.writer(out).writerows(rows)
        shutil.rmtree(self.folder / "shot", ignore_errors=True)
        self.frames = frames
        told = {
            **self._about, "path": self._path, "frames": frames, "tracks": self.tracks,
            "cuts": self.cuts,
        }  # fmt: skip
        unfinished = self.folder / "progress.writing"
        unfinished.write_text(json.dumps(told))
        unfinished.replace(self.folder / "progress.json")

    def finish(self, **told: Any) -> dict[str, Any]:
        """All of the video has been looked at."""
        whole = {"frames": self.frames, "tracks": self.tracks, "cuts": self.cuts, **told}
        (self.folder / "done.json").write_text(json.dumps(whole))
        return whole


def track(config: Config, video: Path, book: Book) -> dict[str, Any]:
    """Look at a video, from where that was interrupted if it was."""
    detector = Detector(config.score, config.largest)
    shots, follower = Shots(config.cut), Follower(rate(video), config.score)
    begun, number, started, damage = book.frames, -1, perf_counter(), None
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(),
               TextColumn("{task.fields[rate]:.0f} frames a second"))  # fmt: skip
    with Progress(*columns) as progress:
        bar = progress.add_task(book.folder.name, total=length(video), rate=0.0)
        try:
            for frame in frames(video):
                number = frame.number
                progress.update(bar, completed=number + 1)
                if shots.cut(frame.picture) and number > book.frames:
                    book.cuts.append(number)
                    book.end_shot(number)
                    follower.cut()
                if number < begun:
                    continue
                for face, own in follower.follow(detector.faces(frame.picture)):
                    book.saw(frame, face, own)
                progress.update(bar, rate=(number + 1 - begun) / (perf_counter() - started))
        except VideoError as error:
            if number < 0:
                raise
            damage = error
    book.end_shot(number + 1)
    if damage is not None:
        raise damage
    seconds = perf_counter() - started
    return book.finish(**{"frames a second": round((number + 1 - begun) / seconds, 1)})


def cropped(picture: Any, face: Face, size: int) -> Any:
    """The face with a little around it, as a square picture of bytes."""
    x, y = (face.left + face.right) / 2, (face.top + face.bottom) / 2
    half = 0.6 * max(face.right - face.left, face.bottom - face.top)
    height, width = picture.shape[:2]
    left, top = min(max(0, int(x - half)), width - 1), min(max(0, int(y - half)), height - 1)
    right, bottom = max(left, int(x + half)) + 1, max(top, int(y + half)) + 1
    return cv2.resize(picture[top:bottom, left:right], (size, size), interpolation=cv2.INTER_AREA)


def _write_crop(place: Path, frame: int, bgr: Any) -> None:
    file = place / f"{frame:06d}.jpg"
    if not cv2.imwrite(str(file), bgr, [cv2.IMWRITE_JPEG_QUALITY, 92]):
        raise OSError(f"{file} could not be written; is the disk full?")


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
    with open(file, newline="", encoding="utf-8") as rows:
        return [
            Track(
                row["video"], int(row["track"]), int(row["first"]), int(row["last"]),
                float(row["seconds"]), int(row["faces"]),
                tuple(map(int, row[SHARES].split())),
            )
            for row in csv.DictReader(rows)
        ]  # fmt: skip


def read_labels(folder: Path) -> dict[str, str]:
    """Who is seen in which track, of `labels.csv`; empty if there is none.

    >>> read_labels(Path("nowhere"))
    {}
    """
    file = folder / "labels.csv"
    if not file.exists():
        return {}
    with open(file, newline="", encoding="utf-8-sig") as rows:
        reader = csv.DictReader(rows)
        if not {"track", "name"} <= set(reader.fieldnames or ()):
            there = ", ".join(reader.fieldnames or ())
            raise ValueError(
                f"{file} must have the columns track and name, with commas; has {there}"
            )
        return {row["track"].strip(): (row["name"] or "").strip() for row in reader}


def crops(folder: Path, track: Track) -> list[Path]:
    """The pictures of a track, in order."""
    return sorted((folder / track.video / "crops" / f"{track.track:05d}").glob("*.jpg"))


def cut(folder: Path, every: int = 5, size: int = 224) -> None:
    """Cut the crops of an episode that has `frames/*.jpg` and `faces.csv`, but no crops yet.

    A frame is known by the last number in its file's name. This is how a dataset of frames, faces
    and tracks, such as the paper's, becomes a series. All crops are there afterwards, or none.
    """
    frames_of: dict[int, list[tuple[int, Face]]] = {}
    with open(folder / "faces.csv", newline="", encoding="utf-8-sig") as rows:
        for row in csv.DictReader(rows):
            left, top, right, bottom = (float(row[name]) for name in FIELDS[2:6])
            face = Face(left, top, right, bottom, float(row.get("score") or 1))
            frames_of.setdefault(int(row["track"]), []).append((int(row["frame"]), face))
    files = {
        int(re.findall(r"\d+", file.stem)[-1]): file
        for file in (folder / "frames").iterdir()
        if file.suffix.lower() in PICTURES and re.search(r"\d", file.stem)
    }
    unfinished = folder / "crops.writing"
    shutil.rmtree(unfinished, ignore_errors=True)
    for track, seen in track_bar(frames_of.items(), description=f"crops of {folder.name}"):
        place = unfinished / f"{track:05d}"
        place.mkdir(parents=True)
        for frame, face in sorted(seen)[::every]:
            if frame not in files:
                raise ValueError(f"{folder / 'frames'} has no frame {frame}, which faces.csv names")
            picture = cv2.imread(str(files[frame]))
            if picture is None:
                raise ValueError(f"{files[frame]} cannot be read as a picture")
            _write_crop(place, frame, cropped(picture, face, size))
    unfinished.rename(folder / "crops")


def gather(out: Path) -> None:
    """The tables of all faces and tracks of all videos of a folder, and a page to look at them."""
    found: list[Track] = []
    faces, tracks = out / "faces.writing", out / "tracks.writing"
    with open(faces, "w", newline="", encoding="utf-8") as table:
        writer = csv.writer(table)
        writer.writerow(("video", *FIELDS, SHARES))
        for file in sorted(out.glob("*/faces.csv")):
            with open(file, newline="", encoding="utf-8-sig") as rows:
                seen = list(csv.DictReader(rows))
            together = _together(seen)
            for row in seen:
                others = together[int(row["frame"])] - {int(row["track"])}
                values = [row.get(name, "") for name in FIELDS]
                writer.writerow([file.parent.name, *values, _listed(others)])
            found += _tracks(file.parent.name, seen, together)
    with open(tracks, "w", newline="", encoding="utf-8") as table:
        writer = csv.writer(table)
        writer.writerow(("video", "track", "first", "last", "seconds", "faces", SHARES))
        writer.writerows([*track[:6], _listed(track.shares)] for track in found)
    for unfinished in (faces, tracks):
        unfinished.replace(unfinished.with_suffix(".csv"))
    (out / "sheet.html").write_text(_sheet(out, found), encoding="utf-8")


def _listed(tracks: Iterable[int]) -> str:
    return " ".join(map(str, sorted(tracks)))


def _together(seen: list[dict[str, str]]) -> dict[int, set[int]]:
    """By frame, the tracks in it."""
    found: dict[int, set[int]] = {}
    for row in seen:
        found.setdefault(int(row["frame"]), set()).add(int(row["track"]))
    return found


def _tracks(video: str, seen: list[dict[str, str]], together: dict[int, set[int]]) -> list[Track]:
    frames_of: dict[int, list[tuple[int, float]]] = {}
    for row in seen:
        at = int(row["frame"]), float(row.get("seconds") or 0)
        frames_of.setdefault(int(row["track"]), []).append(at)
    shares: dict[int, set[int]] = {track: set() for track in frames_of}
    for tracks in together.values():
        for track in tracks:
            shares[track] |= tracks - {track}
    return [
        Track(video, track, at[0][0], at[-1][0], at[0][1], len(at), tuple(sorted(shares[track])))
        for track, at in sorted(frames_of.items())
    ]


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
