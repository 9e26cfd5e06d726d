"""Crops of faces: cut from frames and written to files."""

from __future__ import annotations

import csv
import re
import shutil
from pathlib import Path
from typing import Any

import cv2
from rich.progress import track as track_bar

from taskfree.paper.tv.detect import Face

FIELDS = ("frame", "seconds", "left", "top", "right", "bottom", "score", "track")
"""The columns of `faces.csv`."""
IMAGES = (".jpg", ".jpeg", ".png", ".bmp")


def crop(image: Any, face: Face, size: int) -> Any:
    """A square crop of a face with some margin, resized to `size` pixels."""
    x, y = (face.left + face.right) / 2, (face.top + face.bottom) / 2
    half = 0.6 * max(face.right - face.left, face.bottom - face.top)
    height, width = image.shape[:2]
    left, top = min(max(0, int(x - half)), width - 1), min(max(0, int(y - half)), height - 1)
    right, bottom = max(left, int(x + half)) + 1, max(top, int(y + half)) + 1
    return cv2.resize(image[top:bottom, left:right], (size, size), interpolation=cv2.INTER_AREA)


def write_crop(folder: Path, frame: int, bgr: Any) -> None:
    """Write a crop as a JPEG file."""
    file = folder / f"{frame:06d}.jpg"
    if not cv2.imwrite(str(file), bgr, [cv2.IMWRITE_JPEG_QUALITY, 92]):
        raise OSError(f"{file} could not be written; is the disk full?")


def cut_crops(folder: Path, every: int = 5, size: int = 224) -> None:
    """Cut the crops of an episode that has `frames/*.jpg` and `faces.csv` but no crops yet.

    The last number in a frame's file name is its number. Either all crops are written, or none.
    """
    faces_of: dict[int, list[tuple[int, Face]]] = {}
    with (folder / "faces.csv").open(newline="", encoding="utf-8-sig") as rows:
        for row in csv.DictReader(rows):
            left, top, right, bottom = (float(row[name]) for name in FIELDS[2:6])
            face = Face(left, top, right, bottom, float(row.get("score") or 1))
            faces_of.setdefault(int(row["track"]), []).append((int(row["frame"]), face))
    files = {
        int(re.findall(r"\d+", file.stem)[-1]): file
        for file in (folder / "frames").iterdir()
        if file.suffix.lower() in IMAGES and re.search(r"\d", file.stem)
    }
    unfinished = folder / "crops.writing"
    shutil.rmtree(unfinished, ignore_errors=True)
    for track, faces in track_bar(faces_of.items(), description=f"crops of {folder.name}"):
        target = unfinished / f"{track:05d}"
        target.mkdir(parents=True)
        for frame, face in sorted(faces)[::every]:
            if frame not in files:
                raise ValueError(f"{folder / 'frames'} has no frame {frame}, which is in faces.csv")
            image = cv2.imread(str(files[frame]))
            if image is None:
                raise ValueError(f"{files[frame]} cannot be read as an image")
            write_crop(target, frame, crop(image, face, size))
    unfinished.rename(folder / "crops")
