"""The images of docs/tv.md: a frame, its faces and tracks; a composed series and its triplets.

The frame is from a preview of intel-iot-devkit/sample-videos (CC BY 4.0). The photographs are CMU
Face Images (Tom Mitchell).
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import cv2
import torch
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from taskfree.paper.tv import compose, tables, tracks
from taskfree.paper.tv.detect import FaceDetector
from taskfree.paper.tv.triplets import pairs, triplets
from taskfree.paper.tv.video import frames


def draw_tracks(clip: Path) -> Figure:
    """A frame, the faces found in it, and the tracks of the whole clip."""
    with tempfile.TemporaryDirectory() as folder:
        tracks.run(tracks.TrackFaces((clip,), Path(folder)))
        found = tables.read(Path(folder))
        rows = [
            [cv2.imread(str(file))[..., ::-1] for file in tables.crops(Path(folder), track)]
            for track in found
        ]
    middle = (max(t.first for t in found) + min(t.last for t in found)) // 2
    frame = next(frame for frame in frames(clip) if frame.number == middle)
    figure = Figure(figsize=(11, 3.2 + 0.95 * len(rows)), layout="constrained")
    top, bottom = figure.subfigures(2, 1, height_ratios=(3.2, 0.95 * len(rows)))
    for axis, boxes in zip(top.subplots(1, 2), (False, True), strict=True):
        axis.imshow(frame.image)
        axis.set_axis_off()
        axis.set_title("faces detected by YuNet" if boxes else f"frame {middle}", fontsize=10)
        for face in FaceDetector().faces(frame.image) if boxes else ():
            size = (face.right - face.left, face.bottom - face.top)
            axis.add_patch(
                Rectangle((face.left, face.top), *size, fill=False, edgecolor="#E69F00", lw=2)
            )
    axes = bottom.subplots(len(rows), 10, squeeze=False)
    for number, (line, crops) in enumerate(zip(axes, rows, strict=True)):
        chosen = crops[:: max(1, len(crops) // 10)][:10]
        for axis, crop in zip(line, chosen, strict=False):
            axis.imshow(crop)
        for axis in line:
            axis.set_axis_off()
        line[0].set_title(f"track {number}: {found[number].faces} faces", loc="left", fontsize=9)
    return figure


def draw_series(faces: Path, order: Path) -> Figure:
    """Eight tracks of each episode of a composed series, from two scenes of four tracks."""
    made = compose.compose(
        compose.people(faces, FaceDetector()),
        compose.read_order(order),
        tracks_per_episode=8,
        scene_length=4,
        length=4,
    )
    figure = Figure(figsize=(11, 8.6), layout="constrained")
    for line, episode in zip(figure.subplots(len(made.episodes), 8), made.episodes, strict=True):
        shown = [track for track in made.tracks if track.episode == episode]
        for axis, track in zip(line, shown, strict=True):
            axis.imshow(made.gallery[track.faces[0]].numpy())
            axis.set_axis_off()
            axis.set_title(track.actor.replace("_", " "), fontsize=9)
    figure.suptitle("Six episodes: one face of each of eight tracks, from two scenes of four")
    return figure


def draw_triplets(faces: Path, order: Path) -> Figure:
    """The triplets of one time step."""
    made = compose.compose(
        compose.people(faces, FaceDetector()),
        compose.read_order(order),
        tracks_per_episode=8,
        length=4,
    )
    rows = triplets(next(pairs(made.tracks)), generator=torch.Generator().manual_seed(0))[::2]
    figure = Figure(figsize=(1.5 * len(rows) + 1.2, 4.8), layout="constrained")
    axes = figure.subplots(3, len(rows))
    for column, row in enumerate(rows.tolist()):
        for line, face in enumerate(row):
            axes[line, column].imshow(made.gallery[face].numpy())
            axes[line, column].set(xticks=[], yticks=[])
    for line, name in enumerate(("anchor", "same track", "other track")):
        axes[line, 0].set_ylabel(name)
    figure.suptitle("Some triplets of a time step")
    return figure


def main() -> None:
    """Draw all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clip", type=Path, required=True)
    parser.add_argument("--faces", type=Path, required=True, help="one folder per person")
    parser.add_argument("--order", type=Path, required=True, help="the actor of every track")
    parser.add_argument("--out", type=Path, default=Path("docs"))
    options = parser.parse_args()
    figures = {
        "tracks": draw_tracks(options.clip),
        "series": draw_series(options.faces, options.order),
        "triplets": draw_triplets(options.faces, options.order),
    }
    for name, figure in figures.items():
        figure.savefig(options.out / f"tv-{name}.png", dpi=80)


if __name__ == "__main__":
    main()
