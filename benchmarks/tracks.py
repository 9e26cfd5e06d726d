"""Faces found and followed: four clips of several people, and how fast a film is looked at.

The clips are previews of intel-iot-devkit/sample-videos (CC BY 4.0). The film is 30 seconds of The
Big Bang Theory (`taskfree data bbt`), on one core. What is found is compared with what is there, by
eye: people, and where shots begin. A track that went from one person to another would jump.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import tempfile
from pathlib import Path

import cv2
import torch

from taskfree import data
from taskfree.experiments import pool
from taskfree.faces import tracks

PEOPLE = {
    "classroom": 4, "face-demographics-walking-and-pause": 3, "face-demographics-walking": 2,
    "head-pose-face-detection-female-and-male": 2,
}  # fmt: skip
CUTS = [259, 317, 377, 459, 603, 654]
"""Of the film, after the black at its beginning, from which it fades in until frame 36."""
FADED_IN = 36


def jump(folder: Path) -> float:
    """How far a face is at most from the one before it in its track, in its own widths."""
    with open(folder / "faces.csv", newline="") as rows:
        faces = [
            {name: float(value) for name, value in row.items()} for row in csv.DictReader(rows)
        ]
    largest, before = 0.0, dict[float, dict[str, float]]()
    for face in faces:
        last = before.get(face["track"])
        if last is not None:
            width = face["right"] - face["left"]
            away = max(abs(face[side] - last[side]) for side in ("left", "top"))
            largest = max(largest, away / width / (face["frame"] - last["frame"]))
        before[face["track"]] = face
    return round(largest, 2)


def main() -> None:
    """Look at all of them, and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clips", type=Path, required=True, help="the folder of the four clips")
    parser.add_argument("--out", type=Path, default=Path("results/tracks.json"))
    options = parser.parse_args()
    os.sched_setaffinity(0, {0})
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    found = []
    for file in (*sorted(options.clips.glob("*.gif")), data.fetch("bbt")):
        with tempfile.TemporaryDirectory() as folder:
            tracks.run(tracks.Config((file,), Path(folder)))
            told = json.loads((Path(folder) / f"01-{file.stem}" / "done.json").read_text())
            read = tracks.read(Path(folder))
            furthest = jump(Path(folder) / f"01-{file.stem}")
        cuts = [] if file.stem in PEOPLE else CUTS
        one = {
            "video": file.name, **told, "faces by track": [track.faces for track in read],
            "largest jump, in face widths a frame": furthest,
            "cuts by eye": cuts,
            "cuts missed": sorted(set(cuts) - set(told["cuts"])),
            "cuts where there are none": [
                cut for cut in told["cuts"] if cut not in cuts and (not cuts or cut > FADED_IN)
            ],
            "tracks across a cut": sum(any(t.first < c <= t.last for c in cuts) for t in read),
        }  # fmt: skip
        if file.stem in PEOPLE:
            one["people by eye"] = PEOPLE[file.stem]
        found.append(one)
    command = "python benchmarks/tracks.py --clips video"
    pool.write_json(options.out, {"command": command, "versions": pool.versions(), "videos": found})
    print(json.dumps(found, indent=1))  # noqa: T201


if __name__ == "__main__":
    main()
