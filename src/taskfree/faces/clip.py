"""Thirty seconds of The Big Bang Theory, from pixels to tracks with names."""

from __future__ import annotations

from pathlib import Path

from taskfree import data
from taskfree.faces import tracks as tracking
from taskfree.faces.label import Labels

__all__ = ["tracks"]

CACHE = Path.home() / ".cache/taskfree/clip"
NAMES = {
    "sheldon": (0, 3, 6, 7, 10, 12, 18),
    "leonard": (1, 4, 5, 8, 11, 17),
    "receptionist": (14, 16, 19),
}
"""Who is seen in which track, by eye; in the other five there is no face."""
COUNT = 21


def tracks(folder: Path = CACHE) -> Path:
    """A folder of the clip's tracks with names, found when it is first asked for."""
    if not (folder / "labels.csv").exists():
        tracking.run(tracking.Config((data.fetch("bbt"),), folder))
        found = tracking.read(folder)
        if len(found) != COUNT:
            raise ValueError(
                f"the clip has {len(found)} tracks here and {COUNT} where they were named, so that "
                f"the names may not fit; name them with taskfree label {folder}"
            )
        named = {found[at].name: name for name, numbers in NAMES.items() for at in numbers}
        Labels(folder).update(named)
    return folder
