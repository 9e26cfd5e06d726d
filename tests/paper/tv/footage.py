"""Files for the tests of the television experiment: downloads, short videos, folders of tracks."""

import csv

import av
import numpy as np
from PIL import Image

from taskfree.paper import data
from unavailable import unavailable

FIRST, LAST = 250, 325
"""The frames of the clip that are in the short video."""


def fetched(name):
    """A downloaded file; a test without it is skipped, or fails in CI."""
    try:
        return data.fetch(name)
    except OSError as error:
        unavailable(f"no {name}: {error}")


def write_video(file, images, rate=25):
    with av.open(str(file), "w") as out:
        stream = out.add_stream("libx264", rate=rate, options={"crf": "12", "preset": "ultrafast"})
        stream.height, stream.width = images[0].shape[:2]
        stream.pix_fmt = "yuv420p"
        for image in images:
            out.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        out.mux(stream.encode(None))


def folder_of_tracks(folder, names=("amy", "leo"), tracks=24):
    """A folder as `taskfree tracks` and `taskfree label` leave it: two episodes of random faces."""
    generator = np.random.default_rng(0)
    labels, table = [], []
    for video in ("01-first", "02-second"):
        for track in range(tracks // 2):
            crops = folder / video / "crops" / f"{track:05d}"
            crops.mkdir(parents=True)
            for frame in range(3):
                values = generator.integers(0, 255, (40, 40, 3), dtype=np.uint8)
                Image.fromarray(values).save(crops / f"{frame:06d}.jpg")
            labels.append([f"{video}/{track:05d}", names[track % 2]])
            table.append([video, track, 0, 2, 0.0, 3, str(track + 1) if track == 0 else ""])
    for name, heading, rows in (
        ("labels.csv", ["track", "name"], labels),
        ("tracks.csv", ["video", "track", "first", "last", "seconds", "faces",
                        "shares a frame with"], table),
    ):  # fmt: skip
        with open(folder / name, "w", newline="") as out:
            csv.writer(out).writerows([heading, *rows])
    return folder
