"""Thirty seconds of The Big Bang Theory, processed from the video to labelled tracks."""

from __future__ import annotations

from pathlib import Path

from taskfree.paper import data
from taskfree.paper.tv import tables
from taskfree.paper.tv import tracks as tracking
from taskfree.paper.tv.label import Labels

__all__ = ["tracks"]

CACHE = Path.home() / ".cache/taskfree/clip"
ACTORS = {
    "sheldon": (0, 3, 6, 7, 10, 12, 18),
    "leonard": (1, 4, 5, 8, 11, 17),
    "receptionist": (14, 16, 19),
}
"""The tracks of each actor, labelled by hand; the other five tracks show no face."""
COUNT = 21
"""The number of tracks when they were labelled."""


def tracks(folder: Path = CACHE) -> Path:
    """The folder of the clip's labelled tracks; the first call creates it."""
    if not (folder / "labels.csv").exists():
        tracking.run(tracking.TrackFaces((data.fetch("bbt"),), folder))
        found = tables.read(folder)
        if len(found) != COUNT:
            raise ValueError(
                f"the clip has {len(found)} tracks on this machine but had {COUNT} when they were "
                f"labelled, so the names may be wrong; name them with taskfree label {folder}"
            )
        names = {found[n].name: actor for actor, numbers in ACTORS.items() for n in numbers}
        Labels(folder).update(names)
    return folder
