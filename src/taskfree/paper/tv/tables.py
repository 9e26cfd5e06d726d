"""The tables of tracked faces, `faces.csv`, `tracks.csv` and `labels.csv`, and a contact sheet."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from taskfree._core import files
from taskfree._core.files import atomic_write
from taskfree.paper.tv.crops import FIELDS

SHARES = "shares a frame with"
"""The name of the column that lists co-occurring tracks."""


class Track(NamedTuple):
    """A tracked face, as a line of `tracks.csv`."""

    video: str
    track: int
    first: int
    last: int
    seconds: float
    """When it starts."""
    faces: int
    co_occurring: tuple[int, ...]
    """The tracks of the same video that share a frame with it, and so are other people."""

    @property
    def name(self) -> str:
        """Its identifier in `labels.csv`."""
        return f"{self.video}/{self.track:05d}"


def read(folder: Path) -> list[Track]:
    """All tracks of a folder, in order of appearance."""
    file = folder / "tracks.csv"
    if not file.exists():
        raise ValueError(f"{folder} holds no tracks; create them with taskfree tracks")
    with file.open(newline="", encoding="utf-8") as rows:
        return [
            Track(
                row["video"], int(row["track"]), int(row["first"]), int(row["last"]),
                float(row["seconds"]), int(row["faces"]),
                tuple(map(int, row[SHARES].split())),
            )
            for row in csv.DictReader(rows)
        ]  # fmt: skip


def read_labels(folder: Path) -> dict[str, str]:
    """The name of each track, from `labels.csv`; empty if there is none.

    >>> read_labels(Path("nowhere"))
    {}
    """
    file = folder / "labels.csv"
    if not file.exists():
        return {}
    with file.open(newline="", encoding="utf-8-sig") as rows:
        reader = csv.DictReader(rows)
        if not {"track", "name"} <= set(reader.fieldnames or ()):
            there = ", ".join(reader.fieldnames or ())
            raise ValueError(
                f"{file} must have the columns track and name, with commas; has {there}"
            )
        return {row["track"].strip(): (row["name"] or "").strip() for row in reader}


def crops(folder: Path, track: Track) -> list[Path]:
    """The crops of a track, in order."""
    return sorted((folder / track.video / "crops" / f"{track.track:05d}").glob("*.jpg"))


def spread(paths: list[Path], most: int) -> list[Path]:
    """At most `most` of these files, evenly spaced.

    >>> [path.name for path in spread([Path("0"), Path("1"), Path("2"), Path("3")], 2)]
    ['0', '2']
    """
    return paths[:: max(1, len(paths) // most)][:most]


def gather(out: Path) -> None:
    """Write the tables of all faces and tracks of a folder, and a contact sheet."""
    found: list[Track] = []
    with atomic_write(out / "faces.csv") as file, file.open("w", newline="") as faces:
        writer = csv.writer(faces)
        writer.writerow(("video", *FIELDS, SHARES))
        for source in sorted(out.glob("*/faces.csv")):
            with source.open(newline="", encoding="utf-8-sig") as table:
                rows = list(csv.DictReader(table))
            tracks_in = _tracks_by_frame(rows)
            for row in rows:
                others = tracks_in[int(row["frame"])] - {int(row["track"])}
                values = [row.get(name, "") for name in FIELDS]
                writer.writerow([source.parent.name, *values, _join(others)])
            found += _tracks(source.parent.name, rows, tracks_in)
    with atomic_write(out / "tracks.csv") as file, file.open("w", newline="") as tracks:
        writer = csv.writer(tracks)
        writer.writerow(("video", "track", "first", "last", "seconds", "faces", SHARES))
        writer.writerows([*track[:6], _join(track.co_occurring)] for track in found)
    files.write_bytes(out / "sheet.html", _sheet(out, found).encode())


def _join(tracks: Iterable[int]) -> str:
    return " ".join(map(str, sorted(tracks)))


def _tracks_by_frame(rows: list[dict[str, str]]) -> dict[int, set[int]]:
    """For every frame, the tracks in it."""
    found: dict[int, set[int]] = {}
    for row in rows:
        found.setdefault(int(row["frame"]), set()).add(int(row["track"]))
    return found


def _tracks(video: str, rows: list[dict[str, str]], tracks_in: dict[int, set[int]]) -> list[Track]:
    """The tracks of a video, from the rows of its faces and the tracks in each frame."""
    frames_of: dict[int, list[tuple[int, float]]] = {}
    for row in rows:
        frame = int(row["frame"]), float(row.get("seconds") or 0)
        frames_of.setdefault(int(row["track"]), []).append(frame)
    others: dict[int, set[int]] = {track: set() for track in frames_of}
    for tracks in tracks_in.values():
        for track in tracks:
            others[track] |= tracks - {track}
    found = []
    for track, frames in sorted(frames_of.items()):
        (first, seconds), (last, _) = frames[0], frames[-1]
        co_occurring = tuple(sorted(others[track]))
        found.append(Track(video, track, first, last, seconds, len(frames), co_occurring))
    return found


def _sheet(out: Path, tracks: list[Track]) -> str:
    """A contact sheet: one line per track."""
    lines = []
    for track in tracks:
        chosen = spread(crops(out, track), 8)
        images = "".join(
            f'<img loading="lazy" alt="" src="{quote(str(file.relative_to(out)))}">'
            for file in chosen
        )
        details = f"{track.faces} faces, {track.seconds:.1f} s"
        lines.append(
            f"<tr><th>{escape(track.name)}<br><small>{details}</small></th><td>{images}</td></tr>"
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
