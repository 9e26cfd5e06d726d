"""Faces found and followed: four clips of several people, and how fast a film is looked at.

The clips are previews of intel-iot-devkit/sample-videos (CC BY 4.0), with 4, 3, 2 and 2 people in
them, by eye. The film is 30 seconds of The Big Bang Theory (`taskfree data bbt`), on one core.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path

import cv2
import torch

from taskfree import data
from taskfree.experiments import pool
from taskfree.faces import tracks


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
        across = sum(any(t.first < cut <= t.last for cut in told["cuts"]) for t in read)
        found.append(
            {
                "video": file.name, **told, "tracks across a cut": across,
                "faces by track": [track.faces for track in read],
            }
        )  # fmt: skip
    command = "python benchmarks/tracks.py --clips video"
    pool.write_json(options.out, {"command": command, "versions": pool.versions(), "videos": found})
    print(json.dumps(found, indent=1))  # noqa: T201


if __name__ == "__main__":
    main()
