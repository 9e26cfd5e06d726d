"""Frames of any video, and where one shot ends and the next begins."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import av
import numpy as np
from numpy.typing import NDArray

from taskfree import arguments

__all__ = ["Frame", "Shots", "VideoError", "frames", "length"]

Picture = NDArray[np.uint8]


class VideoError(ValueError):
    """A video that cannot be read, or not to its end."""


class Frame(NamedTuple):
    """One picture of a video."""

    number: int
    seconds: float
    picture: Picture
    """Bytes, [height, width, 3], red first."""


def frames(file: Path) -> Iterator[Frame]:
    """All frames in order. What is damaged ends in a VideoError, after what could be read."""
    try:
        with av.open(str(file)) as container:
            if not container.streams.video:
                raise VideoError(f"{file} has no pictures in it")
            stream = container.streams.video[0]
            stream.thread_type = "AUTO"
            rate = float(stream.average_rate or 25)
            number = -1
            try:
                for number, frame in enumerate(container.decode(stream)):
                    seconds = number / rate if frame.time is None else float(frame.time)
                    picture: Any = frame.to_ndarray(format="rgb24")
                    yield Frame(number, seconds, picture)
            except av.FFmpegError as error:
                raise VideoError(
                    f"{file} is damaged after frame {number}: {error}; what came before was kept"
                ) from error
            said = length(file)
            if said is not None and number + 1 < 0.9 * said:
                raise VideoError(
                    f"{file} ends after frame {number} and says that it has {said}; what came "
                    "before was kept"
                )
    except (av.FFmpegError, OSError) as error:
        raise VideoError(f"{file} cannot be read as a video: {error}") from error


def length(file: Path) -> int | None:
    """About how many frames there are, if the file says so."""
    try:
        with av.open(str(file)) as container:
            stream = container.streams.video[0]
            if stream.frames:
                return int(stream.frames)
            if container.duration and stream.average_rate:
                return int(container.duration / av.time_base * stream.average_rate)
    except (av.FFmpegError, OSError, IndexError):
        pass
    return None


class Shots:
    """Says whether a frame begins a new shot: its colours are elsewhere than a moment ago.

    Args:
        threshold: the share of the picture, between 0 and 1, that must have changed its colour.

    >>> shots, dark, bright = Shots(), np.zeros((64, 64, 3), np.uint8), np.full((64, 64, 3), 200)
    >>> [shots.cut(picture.astype(np.uint8)) for picture in (dark, dark, bright, bright)]
    [False, False, True, False]
    """

    def __init__(self, threshold: float = 0.3) -> None:
        self.threshold = arguments.number("threshold", threshold, above=0)
        self._before: Any = None

    def cut(self, picture: Picture) -> bool:
        """Whether this frame is the first of a shot."""
        now = self._colours(picture)
        before, self._before = self._before, now
        return before is not None and float(np.abs(now - before).sum()) / 2 > self.threshold

    @staticmethod
    def _colours(picture: Picture) -> NDArray[np.float64]:
        """The shares of 64 colours in each of sixteen parts of the picture."""
        small = (picture[::4, ::4] >> 6).astype(int)
        colours = 16 * small[..., 0] + 4 * small[..., 1] + small[..., 2]
        places = [np.arange(size) * 4 // size for size in colours.shape]
        parts = 4 * places[0][:, None] + places[1][None, :]
        found = np.bincount((64 * parts + colours).ravel(), minlength=1024)
        share: NDArray[np.float64] = found / found.sum()
        return share
