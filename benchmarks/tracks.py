"""Faces detected and tracked in four clips of several people, and the speed on a film.

The clips are previews of intel-iot-devkit/sample-videos (CC BY 4.0). The film is 30 seconds of The
Big Bang Theory (`taskfree data bbt`), on one core. The results are compared with the people and
cuts that were found by eye. A track that changed from one person to another would jump.
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

from taskfree.paper import cache, data, publish
from taskfree.paper.tv import tables, tracks

PEOPLE = {
    "classroom": 4, "face-demographics-walking-and-pause": 3, "face-demographics-walking": 2,
    "head-pose-face-detection-female-and-male": 2,
}  # fmt: skip
CUTS = [259, 317, 377, 459, 603, 654]
"""The first frames of the shots of the film. It starts black and fades in until frame 36."""
FADED_IN = 36


def largest_jump(folder: Path) -> float:
    """The largest distance of a face from the one before it in its track, in widths per frame."""
    with (folder / "faces.csv").open(newline="") as rows:
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
    """Process all videos and write the results."""
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
            tracks.run(tracks.TrackFaces((file,), Path(folder)))
            done = json.loads((Path(folder) / f"01-{file.stem}" / "done.json").read_text())
            read = tables.read(Path(folder))
            jump = largest_jump(Path(folder) / f"01-{file.stem}")
        cuts = [] if file.stem in PEOPLE else CUTS
        one = {
            "video": file.name, **done, "faces by track": [track.faces for track in read],
            "largest jump, in face widths per frame": jump,
            "cuts by eye": cuts,
            "cuts missed": sorted(set(cuts) - set(done["cuts"])),
            "cuts where there are none": [
                cut for cut in done["cuts"] if cut not in cuts and (not cuts or cut > FADED_IN)
            ],
            "tracks across a cut": sum(any(t.first < c <= t.last for c in cuts) for t in read),
        }  # fmt: skip
        if file.stem in PEOPLE:
            one["people by eye"] = PEOPLE[file.stem]
        found.append(one)
    command = "python benchmarks/tracks.py --clips video"
    publish.write_results(
        options.out, {"command": command, "versions": cache.versions(), "videos": found}
    )
    print(json.dumps(found, indent=1))  # noqa: T201


if __name__ == "__main__":
    main()
