"""`taskfree tracks`: from videos to face tracks, in a simple format.

For each video, the folder holds `VIDEO/faces.csv` with one line per face (frame, seconds, box,
score, track) and `VIDEO/crops/TRACK/FRAME.jpg`. For all videos together, it holds `faces.csv`;
`tracks.csv` with one line per track, including the tracks that share a frame with it; and
`sheet.html`, a contact sheet.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from taskfree._core import files, validation
from taskfree.paper.tv.detect import FaceDetector
from taskfree.paper.tv.tables import gather
from taskfree.paper.tv.tracker import FaceTracker
from taskfree.paper.tv.video import CutDetector, VideoError, frame_count, frame_rate, frames
from taskfree.paper.tv.writer import CropOptions, TrackWriter, identity

OPTIONS = ("score", "largest", "cut", "shortest", "every", "size")
"""The options that the tracks depend on."""


@dataclass(frozen=True)
class TrackFaces:
    """Detect and track faces in videos, and write crops, boxes and tracks.

    Finished videos are not processed again, so episodes can be added later. An interrupted run
    continues from the last cut. The tracks before the damage of a damaged video are saved.

        taskfree tracks episode1.mkv episode2.mkv --out series
    """

    videos: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """in the order in which they were shown"""
    out: Path
    """the output folder"""
    score: float = 0.6
    """minimum score of a face, between 0 and 1"""
    largest: int = 720
    """frames with a longer side than this are scaled down first"""
    cut: float = 0.3
    """fraction of a frame that must change its colour at a cut, between 0 and 1"""
    shortest: int = 5
    """tracks with fewer faces are dropped"""
    every: int = 5
    """save every n-th face of a track as a crop"""
    size: int = 224
    """height and width of a crop in pixels"""

    def __post_init__(self) -> None:
        if not self.videos:
            raise ValueError("no videos given: taskfree tracks VIDEO [VIDEO ...] --out DIR")
        for name in ("largest", "shortest", "every", "size"):
            validation.integer(name, getattr(self, name), least=1)
        for name in ("score", "cut"):
            validation.fraction(name, getattr(self, name))


def run(command: TrackFaces) -> None:
    """Process all videos, then write the tables and the contact sheet of the folder."""
    console = Console()
    for video in command.videos:
        if not video.exists():
            raise ValueError(f"there is no video {video}")
    command.out.mkdir(parents=True, exist_ok=True)
    writers: list[TrackWriter] = []
    for video in command.videos:
        used = {writer.folder for writer in writers}
        options = {name: getattr(command, name) for name in OPTIONS}
        crops = CropOptions(command.every, command.size, command.shortest)
        writers.append(TrackWriter(_folder(command.out, video, used), video, options, crops))
    problems = []
    for video, writer in zip(command.videos, writers, strict=True):
        if writer.done:
            console.print(f"{writer.folder.name} is done")
            continue
        try:
            done = track_video(command, video, writer)
        except VideoError as error:
            problems.append(str(error))
            continue
        console.print(f"{writer.folder.name}: {done['frames']} frames, {done['tracks']} tracks, "
                      f"{done['frames per second']} frames per second")  # fmt: skip
    gather(command.out)
    console.print(
        f"tracks: {command.out / 'tracks.csv'}, contact sheet: {command.out / 'sheet.html'}"
    )
    if problems:
        raise ValueError("; ".join(problems))


def _folder(out: Path, video: Path, used: set[Path]) -> Path:
    """The folder of a video: an existing one, or a new one numbered after the others."""
    numbered = {
        folder: folder.name.partition("-")
        for folder in sorted(out.iterdir())
        if folder.is_dir() and folder.name.partition("-")[0].isdigit()
    }
    same = [f for f, (_, _, stem) in numbered.items() if stem == video.stem and f not in used]
    for folder in same:
        if (files.read_json(folder / "progress.json") or {}).get("video") == identity(video):
            return folder
    for folder in same:  # an unfinished run on this file, which has changed since
        before = files.read_json(folder / "progress.json") or {}
        if not (folder / "done.json").exists() and before.get("path") == str(video.resolve()):
            return folder
    last = max((int(number) for number, _, _ in numbered.values()), default=0)
    return out / f"{last + 1:02d}-{video.stem}"


def track_video(command: TrackFaces, video: Path, writer: TrackWriter) -> dict[str, Any]:
    """Process a video, from the last cut if it was interrupted."""
    detector = FaceDetector(command.score, command.largest)
    cuts, tracker = CutDetector(command.cut), FaceTracker(frame_rate(video), command.score)
    first, number, started, damage = writer.frames, -1, perf_counter(), None
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(),
               TextColumn("{task.fields[rate]:.0f} frames per second"))  # fmt: skip
    with Progress(*columns) as progress:
        bar = progress.add_task(writer.folder.name, total=frame_count(video), rate=0.0)
        try:
            for frame in frames(video):
                number = frame.number
                progress.update(bar, completed=number + 1)
                if cuts.is_cut(frame.image) and number > writer.frames:
                    writer.cuts.append(number)
                    writer.end_shot(number)
                    tracker.cut()
                if number < first:
                    continue
                for face, track in tracker.update(detector.faces(frame.image)):
                    writer.add(frame, face, track)
                progress.update(bar, rate=(number + 1 - first) / (perf_counter() - started))
        except VideoError as error:
            if number < 0:
                raise
            damage = error
    writer.end_shot(number + 1)
    if damage is not None:
        raise damage
    seconds = perf_counter() - started
    return writer.finish(**{"frames per second": round((number + 1 - first) / seconds, 1)})
