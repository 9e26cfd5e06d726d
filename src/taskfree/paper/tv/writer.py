"""Writes the files of a video's tracks, shot by shot."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import cv2

from taskfree._core import files
from taskfree._core.files import atomic_write
from taskfree.paper.tv.crops import FIELDS, crop, write_crop
from taskfree.paper.tv.detect import Face
from taskfree.paper.tv.video import Frame


class CropOptions(NamedTuple):
    """Which faces are written as crops."""

    every: int
    """Every n-th face of a track ..."""
    size: int
    """... at this height and width in pixels ..."""
    shortest: int
    """... of tracks of at least this many faces."""


class TrackedFace(NamedTuple):
    """A face in a frame, and its track."""

    frame: int
    seconds: float
    face: Face
    track: int


def identity(video: Path) -> dict[str, Any]:
    """What a video is recognized by."""
    return {"file": video.name, "bytes": video.stat().st_size}


class TrackWriter:
    """Writes the tracks of a video, shot by shot.

    No track crosses a cut, so an interrupted run continues from the last cut and finds the same
    tracks.

    Args:
        folder: of the video.
        video: its file.
        options: how it is processed; a continued run must have the same options.
        crops: which faces are written as crops.
    """

    def __init__(
        self, folder: Path, video: Path, options: dict[str, Any], crops: CropOptions
    ) -> None:
        self.folder, self._crops = folder, crops
        self._manifest = {"video": identity(video), "options": options}
        self._path = str(video.resolve())
        before = files.read_json(folder / "progress.json") or {}
        self.done = (folder / "done.json").exists()
        if before.get("video") != self._manifest["video"]:
            before = {}
        if before.get("frames") and before["options"] != options:
            raise ValueError(
                f"{folder} was made with other options: {before['options']}, now {options}; use "
                "the same options, another --out, or remove the folder"
            )
        self.frames: int = before.get("frames", 0)
        """The number of frames in finished shots."""
        self.tracks: int = before.get("tracks", 0)
        self.cuts: list[int] = before.get("cuts", [])
        self._shot: dict[int, list[TrackedFace]] = {}
        if not self.done:
            self._remove_unfinished()

    def _remove_unfinished(self) -> None:
        """Remove the files of a shot that was interrupted."""
        self.folder.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(self.folder / "shot", ignore_errors=True)
        for crops in (self.folder / "crops").glob("*/"):
            if int(crops.name) >= self.tracks:
                shutil.rmtree(crops)
        file = self.folder / "faces.csv"
        rows = [list(FIELDS)]
        if self.frames:
            with file.open(newline="") as written:
                rows += [row for row in list(csv.reader(written))[1:] if int(row[0]) < self.frames]
        with atomic_write(file) as unfinished, unfinished.open("w", newline="") as out:
            csv.writer(out).writerows(rows)

    def add(self, frame: Frame, face: Face, number: int) -> None:
        """Add a face of track `number`. Every n-th one of a track is written as a crop."""
        track = self._shot.setdefault(number, [])
        if len(track) % self._crops.every == 0:
            folder = self.folder / "shot" / str(number)
            folder.mkdir(parents=True, exist_ok=True)
            image = crop(frame.image, face, self._crops.size)
            write_crop(folder, frame.number, cv2.cvtColor(image, cv2.COLOR_RGB2BGR))
        track.append(TrackedFace(frame.number, frame.seconds, face, number))

    def end_shot(self, frames: int) -> None:
        """Write the shot that ends before frame number `frames`."""
        shot, self._shot = self._shot, {}
        rows: list[list[float]] = []
        (self.folder / "crops").mkdir(exist_ok=True)
        for number in sorted(shot):
            if len(shot[number]) < self._crops.shortest:
                continue
            crops = self.folder / "crops" / f"{self.tracks:05d}"
            (self.folder / "shot" / str(number)).rename(crops)
            for tracked in shot[number]:
                box = [round(value, 1) for value in tracked.face[:4]]
                score = round(tracked.face.score, 3)
                rows.append([tracked.frame, round(tracked.seconds, 3), *box, score, self.tracks])
            self.tracks += 1
        rows.sort(key=lambda row: (row[0], row[-1]))
        with (self.folder / "faces.csv").open("a", newline="") as out:
            csv.writer(out).writerows(rows)
        shutil.rmtree(self.folder / "shot", ignore_errors=True)
        self.frames = frames
        progress = {
            **self._manifest, "path": self._path, "frames": frames, "tracks": self.tracks,
            "cuts": self.cuts,
        }  # fmt: skip
        files.write_json(self.folder / "progress.json", progress)

    def finish(self, **more: Any) -> dict[str, Any]:
        """Mark the video as done; return a summary."""
        summary = {"frames": self.frames, "tracks": self.tracks, "cuts": self.cuts, **more}
        files.write_json(self.folder / "done.json", summary)
        return summary
