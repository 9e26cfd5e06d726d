"""Frames of any video, and where one shot ends and the next begins."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import av
import numpy as np
from numpy.typing import NDArray

from taskfree import arguments

__all__ = ["Frame", "Shots", "VideoError", "frames", "length", "rate"]

Picture = NDArray[np.uint8]
DARK = 32.0
"""Nothing below this, of 255, is taken for bright: what is left there is noise."""


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
            usual = rate(file)
            seen, number = 0.0, -1  # seconds of picture or sound that came; the last frame
            try:
                for packet in container.demux():
                    if packet.pts is not None and packet.stream.type in ("audio", "video"):
                        end = packet.pts + (packet.duration or 0)
                        seen = max(seen, float(end * packet.time_base))
                    if packet.stream is not stream:
                        continue
                    decoded: Any = packet.decode()
                    for frame in decoded:
                        number += 1
                        seconds = number / usual if frame.time is None else float(frame.time)
                        yield Frame(number, seconds, frame.to_ndarray(format="rgb24"))
            except av.FFmpegError as error:
                raise VideoError(
                    f"{file} is damaged after frame {number}: {error}; what came before was kept"
                ) from error
            said = ((container.duration or 0) + (container.start_time or 0)) / av.time_base
            if seen < 0.9 * said - 0.5:
                raise VideoError(
                    f"{file} ends after frame {number}, {seen:.1f} seconds, and says that it has "
                    f"{said:.1f}; what came before was kept"
                )
    except (av.FFmpegError, OSError) as error:
        raise VideoError(f"{file} cannot be read as a video: {error}") from error


def length(file: Path) -> int | None:
    """About how many frames there are, if the file says so: enough for a progress bar."""
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


def rate(file: Path) -> float:
    """Frames a second; 25 if the file does not say."""
    try:
        with av.open(str(file)) as container:
            return float(container.streams.video[0].average_rate or 25)
    except (av.FFmpegError, OSError, IndexError):
        return 25.0


class Shots:
    """Says whether a frame begins a new shot: its colours are elsewhere than a moment ago.

    Colours are told apart as finely in a dim scene as in a bright one.

    Args:
        threshold: the share of the picture, between 0 and 1, that must have changed its colour.

    >>> shots, dark, bright = Shots(), np.zeros((64, 64, 3), np.uint8), np.full((64, 64, 3), 200)
    >>> [shots.cut(picture.astype(np.uint8)) for picture in (dark, dark, bright, bright)]
    [False, False, True, False]
    """

    def __init__(self, threshold: float = 0.3) -> None:
        self.threshold = arguments.number("threshold", threshold, above=0)
        self._before: Picture | None = None

    def cut(self, picture: Picture) -> bool:
        """Whether this frame is the first of a shot."""
        now = picture[::4, ::4].copy()
        before, self._before = self._before, now
        if before is None or before.shape != now.shape:
            return before is not None
        return float(np.abs(self._colours(now) - self._colours(before)).sum()) / 2 > self.threshold

    @staticmethod
    def _colours(small: Picture) -> NDArray[np.float64]:
        """The shares of 64 colours in each of sixteen parts of the picture."""
        brightest = max(DARK, float(np.percentile(small, 99)))
        levels = np.minimum(3, small * (4 / brightest)).astype(int)
        colours = 16 * levels[..., 0] + 4 * levels[..., 1] + levels[..., 2]
        places = [np.arange(size) * 4 // size for size in colours.shape]
        parts = 4 * places[0][:, None] + places[1][None, :]
        found = np.bincount((64 * parts + colours).ravel(), minlength=1024)
        share: NDArray[np.float64] = found / found.sum()
        return share
